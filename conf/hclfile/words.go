package hclfile

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/weirlb/weir/conf"
)

// words is the walk over the names of a file: is each word known where it
// stands, and does each expression refer to something? It looks at the file as
// written, before dynamic blocks are expanded, so that a mistake inside one is
// reported once. What it complains about it takes out of the tree or marks, so
// that the decoder does not stumble over it again.
type words struct {
	*decoder
	values  *values
	blanked map[int]bool // lines that syntax.go replaced
}

// scope is the set of iterators of the dynamic blocks around an expression.
type scope map[string]bool

func (w *words) body(schema *block, b *hclsyntax.Body, in scope) {
	for _, a := range inOrder(b.Attributes) {
		if !w.attribute(schema, a) {
			w.flawed[b.SrcRange.Start.Byte] = true
			delete(b.Attributes, a.Name)
			continue
		}
		if !w.attributeValue(a, schema.attr(a.Name), in) {
			w.spoilt[a.NameRange.Start.Byte] = true
		}
	}
	kept := b.Blocks[:0]
	for _, c := range b.Blocks {
		if w.block(schema, c, in) {
			kept = append(kept, c)
			continue
		}
		w.flawed[b.SrcRange.Start.Byte] = true
	}
	b.Blocks = kept
}

func inOrder(attrs hclsyntax.Attributes) []*hclsyntax.Attribute {
	return slices.SortedFunc(maps.Values(attrs), func(a, b *hclsyntax.Attribute) int {
		return a.NameRange.Start.Byte - b.NameRange.Start.Byte
	})
}

// attribute reports whether the block takes the attribute.
func (w *words) attribute(schema *block, a *hclsyntax.Attribute) bool {
	if schema.open || schema.attr(a.Name) != nil {
		return true
	}
	if c := schema.block(a.Name); c != nil {
		header := strings.TrimSuffix(strings.TrimSuffix(c.header, "{}"), "{")
		example := c.header + " ... }"
		if c == udpBlock {
			w.errorf(a.NameRange, "udp is a block", `It has no equals sign. Write protocol = "udp" for a UDP listener; its settings stand in udp { ... }`)
			return false
		}
		text, ok := literal(a.Expr)
		if m, example := translateMethod(text); ok && c == balanceBlock && m != nil {
			w.errorf(a.NameRange, "balance is a block", "It has no equals sign. %s", example)
			return false
		}
		if ok && c.label != "" {
			example = fmt.Sprintf("%s %s { ... }", c.name, quote(text))
			if len(c.attrs) == 0 {
				example = fmt.Sprintf("%s %s {}", c.name, quote(text))
			}
		} else if strings.HasSuffix(c.header, "{}") {
			example = header + "{}"
		}
		w.errorf(a.NameRange, fmt.Sprintf("%s is a block", a.Name), "It has no equals sign: write %s", example)
		return false
	}
	w.unknown(schema, a.Name, literalText(a.Expr), a.NameRange)
	return false
}

// block walks one block and reports whether the decoder may have it.
func (w *words) block(schema *block, b *hclsyntax.Block, in scope) bool {
	if w.blanked[b.TypeRange.Start.Line] {
		// Its header could not be read and stands as a placeholder: there is
		// no telling what its content belongs to.
		return false
	}
	if b.Type == "dynamic" && !schema.open {
		return w.dynamic(schema, b, in)
	}
	c := schema.block(b.Type)
	if c == nil {
		if a := schema.attr(b.Type); a != nil {
			w.errorf(b.TypeRange, fmt.Sprintf("%s is not a block", b.Type), "It is set with an equals sign: %s = %s", b.Type, a.example)
		} else {
			value := ""
			if len(b.Labels) > 0 {
				value = b.Labels[0]
			}
			w.unknown(schema, b.Type, value, b.TypeRange)
			if meant := meantBlock(schema, b); meant != nil {
				w.body(meant, b.Body, in) // its content has mistakes of its own
			}
		}
		return false
	}
	switch {
	case c.label == "" && len(b.Labels) > 0:
		w.errorf(b.LabelRanges[0], fmt.Sprintf("%s has no label", c.name), "Write %s ... }", c.header)
		w.body(c, b.Body, in)
		return false
	case c.label != "" && len(b.Labels) == 0:
		w.errorf(b.TypeRange, fmt.Sprintf("%s needs its %s", c.name, c.label), "Write %s", headerExample(c))
		w.body(c, b.Body, in)
		return false
	case c.label != "" && len(b.Labels) > 1:
		w.errorf(b.LabelRanges[1], fmt.Sprintf("%s has one label, its %s", c.name, c.label), "Write %s", headerExample(c))
		w.body(c, b.Body, in)
		return false
	}
	w.body(c, b.Body, in)
	return true
}

// meantBlock guesses the table for the content of an unknown block; nil if
// there is no telling.
func meantBlock(schema *block, b *hclsyntax.Block) *block {
	switch {
	case schema.isLater(b.Type):
		return nil
	case schema == rootBlock && b.Type == "stream": // nginx
		return rootBlock
	case schema == rootBlock && b.Type == "server" && len(b.Labels) == 0: // nginx
		return listenerBlock
	case foreign[b.Type] != "":
		return nil
	}
	return schema.block(nearest(b.Type, schema.words()))
}

func headerExample(c *block) string {
	if strings.HasSuffix(c.header, "}") {
		return c.header
	}
	return c.header + " ... }"
}

// dynamic walks a dynamic block: one that stands for several blocks of a kind.
func (w *words) dynamic(schema *block, b *hclsyntax.Block, in scope) bool {
	if len(b.Labels) != 1 {
		w.errorf(b.DefRange(), "dynamic needs the kind of block it makes", `Write it as its only label: dynamic "server" { ... }`)
		return false
	}
	name := b.Labels[0]
	c := schema.block(name)
	switch {
	case c == localsBlock:
		w.errorf(b.LabelRanges[0], "locals can't be dynamic", "Other dynamic blocks are made from them: write a plain locals block.")
		return false
	case c == nil && schema.attr(name) != nil:
		w.errorf(b.LabelRanges[0], fmt.Sprintf("%s is not a block", name), "Only blocks can be dynamic. Set it with an equals sign: %s = %s", name, schema.attr(name).example)
		return false
	case c == nil:
		w.unknown(schema, name, "", b.LabelRanges[0])
		return false
	}
	ok := true
	iterator := name
	inner := maps.Clone(in)
	if inner == nil {
		inner = scope{}
	}
	if a := b.Body.Attributes["iterator"]; a != nil {
		if t, diags := hcl.AbsTraversalForExpr(a.Expr); !diags.HasErrors() && len(t) == 1 {
			iterator = t.RootName()
		} else {
			w.errorf(a.Expr.Range(), "iterator takes a name", "Write it without quotes: iterator = each")
			ok = false
		}
	}
	inner[iterator] = true
	for _, a := range inOrder(b.Body.Attributes) {
		switch a.Name {
		case "for_each":
			ok = w.expression(a.Expr, nil, in) && ok
		case "labels":
			ok = w.labels(c, a, inner) && ok
		case "iterator":
		default:
			w.errorf(a.NameRange, fmt.Sprintf("unknown word %q in a dynamic block", a.Name), "%s",
				w.dynamicHint(c, a.Name))
			ok = false
		}
	}
	var content *hclsyntax.Block
	for _, inside := range b.Body.Blocks {
		switch {
		case inside.Type != "content":
			w.errorf(inside.TypeRange, fmt.Sprintf("unknown word %q in a dynamic block", inside.Type), "%s", w.dynamicHint(c, inside.Type))
			ok = false
		case content != nil:
			w.report(inside.DefRange(), "second content block", "A dynamic block has one.", related{content.DefRange(), "the first one is here"})
			ok = false
		case len(inside.Labels) > 0:
			w.errorf(inside.LabelRanges[0], "content has no label", "Labels of the blocks that are made go into labels = [...].")
			ok = false
		default:
			content = inside
			w.body(c, inside.Body, inner)
		}
	}
	missing := func(what, example string) {
		w.errorf(b.DefRange(), "dynamic block has no "+what, "Write %s", example)
		ok = false
	}
	if b.Body.Attributes["for_each"] == nil {
		missing("for_each", `for_each = ["10.0.0.11:5432", "10.0.0.12:5432"]`)
	}
	if b.Body.Attributes["labels"] == nil && c.label != "" {
		missing("labels", fmt.Sprintf("labels = [%s.value], the %s of each %s", iterator, c.label, name))
	}
	if content == nil && ok {
		missing("content", fmt.Sprintf("content { ... } with what each %s holds; it may be empty", name))
	}
	return ok
}

func (w *words) dynamicHint(c *block, name string) string {
	if c.has(name) {
		return fmt.Sprintf("What each %s holds goes into the content block: content { %s ... }", c.name, name)
	}
	return instead(name, []string{"for_each", "iterator", "labels", "content"})
}

func (w *words) labels(c *block, a *hclsyntax.Attribute, in scope) bool {
	list, isList := a.Expr.(*hclsyntax.TupleConsExpr)
	switch {
	case c.label == "":
		w.errorf(a.NameRange, fmt.Sprintf("%s has no label", c.name), "Remove labels.")
		return false
	case !isList || len(list.Exprs) != 1:
		w.errorf(a.Expr.Range(), "labels takes a list of one expression", "Write the %s of each %s in brackets: labels = [%s.value]", c.label, c.name, c.name)
		return false
	}
	return w.expression(a.Expr, nil, in)
}

// unknown reports a word that is not in the block's table.
// value is the text that stands beside it, if there is one.
func (w *words) unknown(schema *block, word, value string, at hcl.Range) {
	if schema.isLater(word) {
		w.notBuilt(at, word, schema.place())
		return
	}
	w.errorf(at, fmt.Sprintf("unknown word %q %s", word, schema.place()), "%s", w.advice(schema, word, value))
}

// advice says what to write for an unknown word, best guess first: a word that
// has its home in another block, one of another program's, a misspelt one.
func (w *words) advice(schema *block, word, value string) string {
	normal := normalized(word)
	valid := append(schema.words(), schema.later...)
	if near := nearest(word, valid); near != "" && conf.Distance(word, near) <= 1 {
		return written(schema, near)
	}
	if schema == listenerBlock && normal == "server" {
		return `Servers stand in an upstream block, which the listener names: upstream = "NAME"`
	}
	if schema == limitsBlock && normal == "max_sessions" {
		return written(schema, "sessions")
	}
	if schema == rootBlock && normal == "server" && value == "" {
		return `nginx's server { } is listener "NAME" { ... } here. A server of an upstream stands in its upstream block.`
	}
	if text, ok := foreignHint(normal, value); ok {
		return text
	}
	if home := homes(normal, schema); len(home) > 0 {
		return belongs(home, normal)
	}
	if near := nearest(word, valid); near != "" {
		return written(schema, near)
	}
	for _, c := range everyBlock() {
		if near := nearest(word, append(c.words(), c.later...)); c != schema && near != "" {
			return belongs(homes(near, schema), near)
		}
	}
	return fmt.Sprintf("What may stand %s: %s.", schema.place(), strings.Join(schema.words(), ", "))
}

func written(schema *block, word string) string {
	return fmt.Sprintf("Write %q.%s", word, laterSuffix(word, schema.later))
}

func belongs(home []*block, word string) string {
	var names []string
	later := true
	for _, c := range home {
		if c == rootBlock {
			return fmt.Sprintf("%q stands at the top of the file, as a block of its own. Is a } missing above?", word)
		}
		names = append(names, c.name)
		later = later && c.isLater(word)
	}
	last := len(names) - 1
	where := names[last]
	if last > 0 {
		where = strings.Join(names[:last], ", ") + " or " + where
	}
	text := fmt.Sprintf("%q belongs in %s %s block.", word, article(names[0]), where)
	if later {
		text += " It is not built yet."
	}
	return text
}

// literal returns the text of an expression that is a string and nothing else.
func literal(e hclsyntax.Expression) (string, bool) {
	if t, ok := e.(*hclsyntax.TemplateExpr); ok && t.IsStringLiteral() {
		v, diags := t.Value(nil)
		if !diags.HasErrors() {
			return v.AsString(), true
		}
	}
	return "", false
}

// literalText returns the text of an expression that is a string or a number
// and nothing else, or "".
func literalText(e hclsyntax.Expression) string {
	if l, ok := e.(*hclsyntax.LiteralValueExpr); ok && l.Val.IsKnown() && !l.Val.IsNull() && l.Val.Type() == cty.Number {
		return l.Val.AsBigFloat().Text('f', -1)
	}
	text, _ := literal(e)
	return text
}

// attributeValue checks what the value of an attribute refers to and reports
// whether it can be evaluated. schema is nil in blocks that hold any attribute.
func (w *words) attributeValue(a *hclsyntax.Attribute, schema *attribute, in scope) bool {
	if schema != nil && schema.kind == kindTemplate {
		return w.template(a, schema, in)
	}
	return w.expression(a.Expr, schema, in)
}

// expression checks what an expression refers to and reports whether it can be
// evaluated. a is the attribute it is the value of, or nil.
func (w *words) expression(e hclsyntax.Expression, a *attribute, in scope) bool {
	ok := true
	for _, t := range e.Variables() {
		ok = w.reference(t, isWhole(e, t), a, in) && ok
	}
	return ok
}

// isWhole reports whether a reference is all of an expression, or of one
// element of a list, and not a part of something computed.
func isWhole(e hclsyntax.Expression, t hcl.Traversal) bool {
	if list, ok := e.(*hclsyntax.TupleConsExpr); ok {
		for _, element := range list.Exprs {
			if isWhole(element, t) {
				return true
			}
		}
		return false
	}
	s, ok := e.(*hclsyntax.ScopeTraversalExpr)
	return ok && s.SrcRange == t.SourceRange()
}

func (w *words) reference(t hcl.Traversal, whole bool, a *attribute, in scope) bool {
	root := t.RootName()
	if in[root] {
		return true
	}
	at := t.SourceRange()
	switch root {
	case "local":
		name, ok := second(t)
		if !ok {
			w.errorf(at, "local needs a name", "Write local.NAME with the name of a value of a locals block.")
			return false
		}
		if _, ok := w.values.locals[name]; !ok {
			w.errorf(at, fmt.Sprintf("unknown local %q", name), "%s", w.values.localHint(name))
			return false
		}
		return true
	case "env":
		name, ok := second(t)
		if !ok {
			w.errorf(at, "env needs a name", "Write env.NAME with the name of an environment variable.")
			return false
		}
		if !w.values.wantEnv(name) {
			w.errorf(at, fmt.Sprintf("environment variable %s is not set", name),
				"Give it to weir when it starts: %s=VALUE weir ..., or Environment=%s=VALUE in its systemd unit.", name, name)
			return false
		}
		return true
	}
	inList := whole && a != nil && a.kind == kindList // the fields of log lines are strings
	if isVariable(root) && len(t) == 1 && !inList {
		w.misplaced(root, at, whole, a)
		return false
	}
	if len(t) > 1 || !whole {
		w.errorf(at, fmt.Sprintf("unknown name %q", root), "%s", w.nameHint(t, in))
		return false
	}
	w.errorf(at, fmt.Sprintf("%q is not in quotes", root), "%s", w.bareHint(root, a))
	return false
}

// second returns the name after the first dot of a traversal.
func second(t hcl.Traversal) (string, bool) {
	if len(t) < 2 {
		return "", false
	}
	switch step := t[1].(type) {
	case hcl.TraverseAttr:
		return step.Name, true
	case hcl.TraverseIndex:
		if step.Key.Type().FriendlyName() == "string" {
			return step.Key.AsString(), true
		}
	}
	return "", false
}

func (w *words) nameHint(t hcl.Traversal, in scope) string {
	root := t.RootName()
	known := append([]string{"local", "env"}, slices.Sorted(maps.Keys(in))...)
	name, ok := second(t)
	switch {
	case root == "var" && ok:
		return fmt.Sprintf("Write env.%s for the environment, or local.%s for a value of a locals block.", name, name)
	case len(t) == 1:
		return fmt.Sprintf("Write env.%s for the environment, or local.%s for a value of a locals block.", root, root)
	case root == "locals" && ok:
		return fmt.Sprintf("Write local.%s.", name)
	case nearest(root, known) != "":
		return fmt.Sprintf("Write %q.", nearest(root, known))
	}
	return `Expressions know local.NAME, env.NAME and functions. A text, a host name for example, is written in quotes.`
}

// bareHint says what to write for a word that stands where a value should.
func (w *words) bareHint(word string, a *attribute) string {
	if _, ok := w.values.locals[word]; ok {
		return fmt.Sprintf("Write %s for the text, or local.%s for the value of the locals block.", quote(word), word)
	}
	if a != nil && a.kind == kindBool {
		switch strings.ToLower(word) {
		case "yes", "on", "true", "enabled":
			return fmt.Sprintf("Write %s = true", a.name)
		case "no", "off", "false", "disabled":
			return fmt.Sprintf("Write %s = false", a.name)
		}
		return fmt.Sprintf("Write %s = true or %s = false", a.name, a.name)
	}
	if a != nil && a.kind == kindList {
		return fmt.Sprintf("Write %s = [%s]", a.name, quote(word))
	}
	if a != nil {
		return fmt.Sprintf("Write %s = %s", a.name, quote(word))
	}
	return fmt.Sprintf("Write %s.", quote(word))
}
