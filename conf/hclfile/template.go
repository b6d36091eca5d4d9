package hclfile

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/weirlb/weir/conf"
)

// laterVariables are the variables of the language that no session has yet.
var laterVariables = []string{
	"proxy_protocol_addr", "proxy_protocol_port",
	"ssl_preread_server_name", "ssl_preread_alpn_protocols",
}

// foreignVariables are other people's names for session variables.
var foreignVariables = map[string]string{
	"src":         "remote_addr",
	"src_ip":      "remote_addr",
	"source":      "remote_addr",
	"source_ip":   "remote_addr",
	"client":      "remote_addr",
	"client_ip":   "remote_addr",
	"client_addr": "remote_addr",
	"remote_ip":   "remote_addr",
	"ip":          "remote_addr",
	"src_port":    "remote_port",
	"client_port": "remote_port",
	"dst":         "server_addr",
	"dst_ip":      "server_addr",
	"local_addr":  "server_addr",
	"dst_port":    "server_port",
	"local_port":  "server_port",
	"port":        "server_port",
	"frontend":    "listener",
	"sni":         "ssl_preread_server_name",
	"alpn":        "ssl_preread_alpn_protocols",
}

// maxTemplateText bounds the text around the variables of a session template,
// which is put together for every session.
const maxTemplateText = 4096

// variableType is the type of a session variable in an expression. It converts
// to no other type, so nothing can be computed with it.
var variableType = cty.Capsule("session variable", reflect.TypeFor[conf.Variable]())

func variableNames(list []conf.Variable) []string {
	names := make([]string, len(list))
	for i, v := range list {
		names[i] = string(v)
	}
	return names
}

// isVariable reports whether the language has a session variable of that name.
func isVariable(name string) bool {
	return contains(laterVariables, name) || slices.Contains(conf.LogVariables(), conf.Variable(name))
}

// template checks the parts of a session template and reports whether it can
// be evaluated. A template with session variables is replaced in the tree by
// the list of its parts, in which a variable stands for itself: that is how the
// decoder gets it, through dynamic blocks too.
func (w *words) template(a *hclsyntax.Attribute, schema *attribute, in scope) bool {
	parts := templateParts(a.Expr)
	ok, found := true, false
	for i, p := range parts {
		name, bare := bareName(p, in)
		if !bare {
			ok = w.fixedPart(a, p, schema, in) && ok
			continue
		}
		if !w.keyVariable(name, p.Range()) {
			ok = false
			continue
		}
		v := conf.Variable(name)
		parts[i] = &hclsyntax.LiteralValueExpr{Val: cty.CapsuleVal(variableType, &v), SrcRange: p.Range()}
		found = true
	}
	if ok && found {
		a.Expr = &hclsyntax.TupleConsExpr{Exprs: parts, SrcRange: a.Expr.Range(), OpenRange: a.Expr.StartRange()}
	}
	return ok
}

// templateParts takes apart what is written as one text.
func templateParts(e hclsyntax.Expression) []hclsyntax.Expression {
	switch e := e.(type) {
	case *hclsyntax.TemplateExpr:
		var parts []hclsyntax.Expression
		for _, p := range e.Parts {
			parts = append(parts, templateParts(p)...)
		}
		return parts
	case *hclsyntax.TemplateWrapExpr:
		return templateParts(e.Wrapped)
	case *hclsyntax.ParenthesesExpr:
		return templateParts(e.Expression)
	}
	return []hclsyntax.Expression{e}
}

// bareName returns the name that an expression is, unless the name has a
// meaning at load.
func bareName(e hclsyntax.Expression, in scope) (string, bool) {
	s, ok := e.(*hclsyntax.ScopeTraversalExpr)
	if !ok || len(s.Traversal) != 1 {
		return "", false
	}
	root := s.Traversal.RootName()
	return root, !in[root] && root != "local" && root != "env"
}

// fixedPart checks a part of a session template that is evaluated at load.
func (w *words) fixedPart(a *hclsyntax.Attribute, part hclsyntax.Expression, schema *attribute, in scope) bool {
	if l, ok := part.(*hclsyntax.LiteralValueExpr); ok && l.Val.Type() == cty.String {
		return w.noDollar(a, l)
	}
	ok := true
	for _, t := range part.Variables() {
		root := t.RootName()
		if in[root] || !isVariable(root) {
			ok = w.reference(t, false, schema, in) && ok
			continue
		}
		w.errorf(t.SourceRange(), "session variables can't be computed with",
			"Functions, operators and conditions run once, at load, when no session is known. Write the variable by itself: %s = \"${%s}\"", a.Name, root)
		ok = false
	}
	return ok
}

var dollarName = regexp.MustCompile(`\$(\w+)`)

// noDollar refuses nginx's way to write a variable: as a text it would place
// all sessions on one server.
func (w *words) noDollar(a *hclsyntax.Attribute, l *hclsyntax.LiteralValueExpr) bool {
	text := l.Val.AsString()
	for _, m := range dollarName.FindAllStringSubmatch(text, -1) {
		if !isVariable(m[1]) {
			continue
		}
		w.errorf(l.SrcRange, fmt.Sprintf("%s is not how a variable is written", m[0]), "Write %s = \"%s\"", a.Name, withBraces(text))
		return false
	}
	return true
}

// withBraces writes nginx's variables as ours, within a text.
func withBraces(text string) string {
	return dollarName.ReplaceAllStringFunc(text, func(name string) string {
		if !isVariable(name[1:]) {
			return name
		}
		return "${" + name[1:] + "}"
	})
}

// keyVariable reports whether a hash key may hold the variable.
func (w *words) keyVariable(name string, at hcl.Range) bool {
	valid := variableNames(conf.KeyVariables())
	ours := foreignVariables[strings.ToLower(name)]
	near := nearest(name, append(valid, laterVariables...))
	_, isLocal := w.values.locals[name]
	unknown := fmt.Sprintf("unknown session variable %q", name)
	switch {
	case contains(valid, name):
		return true
	case contains(laterVariables, name):
		w.notBuilt(at, name, "among the session variables")
	case isVariable(name):
		w.errorf(at, fmt.Sprintf("%s is not known when a server is picked", name),
			"A key is made before that. It may hold %s.", and(valid))
	case isLocal:
		w.errorf(at, unknown, "Write local.%s for the value of the locals block.", name)
	case ours != "":
		w.errorf(at, unknown, "It is called %q here.%s", ours, laterSuffix(ours, laterVariables))
	case near != "":
		w.errorf(at, unknown, "Write %s.%s", near, laterSuffix(near, laterVariables))
	case fromHTTP.MatchString(name):
		w.errorf(at, unknown, "Weir balances TCP and reads no HTTP. A key may hold %s.", and(valid))
	default:
		w.errorf(at, unknown, "A key may hold %s, and texts.", and(valid))
	}
	return false
}

// fromHTTP matches nginx's variables about a request.
var fromHTTP = regexp.MustCompile(`^(http|cookie|arg|sent_http)_|^(request|request_uri|uri|host|args|scheme)$`)

// misplaced refuses a session variable where the value must be known at load.
func (w *words) misplaced(name string, at hcl.Range, whole bool, a *attribute) {
	detail := "Its value is known only when a session comes. Session variables stand in session templates only: " + templateHomes() + "."
	if a != nil && a.kind == kindString && whole {
		detail += fmt.Sprintf(" For the text, write %s = %s", a.name, quote(name))
	}
	w.errorf(at, fmt.Sprintf("session variable %q can't stand here", name), "%s", detail)
}

// templateHomes names the attributes that are session templates.
func templateHomes() string {
	var homes []string
	for _, b := range everyBlock() {
		for _, a := range b.attrs {
			if a.kind == kindTemplate {
				homes = append(homes, fmt.Sprintf("%s in %s %s block", a.name, article(b.name), b.name))
			}
		}
	}
	return strings.Join(homes, ", ")
}

// template returns an attribute that is a session template.
func (b *body) template(name string) (conf.Template, hcl.Range, bool) {
	v, at, ok := b.value(name)
	if !ok {
		return nil, at, false
	}
	parts := []cty.Value{v}
	switch {
	case isTemplate(v):
		parts = v.AsValueSlice()
	case v.Type() != cty.String:
		b.wrongType(name, "a session template", v, at)
		return nil, at, false
	}
	places, _ := hcl.ExprList(b.attrs[name].Expr)
	var t conf.Template
	length := 0
	for i, part := range parts {
		if part.Type().Equals(variableType) {
			t = append(t, conf.Part{Variable: *part.EncapsulatedValue().(*conf.Variable)})
			continue
		}
		text, err := convert.Convert(part, cty.String)
		switch {
		case !part.IsKnown():
			return nil, at, false // was reported
		case err != nil, part.IsNull():
			b.d.errorf(places[i].Range(), fmt.Sprintf("part of %s is not a text", name), "A session template is made of texts, numbers and session variables.")
			return nil, at, false
		}
		if length += len(text.AsString()); length > maxTemplateText {
			b.d.errorf(at, fmt.Sprintf("%s is too long", name), "Without its variables it may have %d bytes.", maxTemplateText)
			return nil, at, false
		}
		t = appendText(t, text.AsString())
	}
	return t, at, true
}

// isTemplate reports whether a value is what the walk over the words makes of a
// session template.
func isTemplate(v cty.Value) bool {
	return v.Type().IsTupleType() && slices.ContainsFunc(v.Type().TupleElementTypes(), func(t cty.Type) bool { return t.Equals(variableType) })
}

// appendText adds text to a template, whose texts are never empty and never
// stand side by side.
func appendText(t conf.Template, text string) conf.Template {
	switch last := len(t) - 1; {
	case text == "":
		return t
	case last >= 0 && t[last].Variable == "":
		t[last].Text += text
		return t
	}
	return append(t, conf.Part{Text: text})
}
