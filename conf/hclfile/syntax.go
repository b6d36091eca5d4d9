package hclfile

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/weirlb/weir/conf"
)

// maxSyntaxErrors bounds the rounds of parseSyntax, each of which parses the
// file again. More mistakes than this mean that it is another kind of file.
const maxSyntaxErrors = 20

// parseSyntax parses the file and reports its syntax errors, one for each
// line. The HCL parser goes quiet after its first mistake in an expression, so
// the line of the first error is blanked and the rest parsed again, until
// nothing is left to complain about. It returns the tree of what remains and
// the lines that were blanked, or nil if there is no sense in looking further.
func parseSyntax(src []byte, filename string) (*hclsyntax.Body, map[int]bool, hcl.Diagnostics) {
	text := bytes.Clone(src)
	blanked := map[int]bool{}
	var out hcl.Diagnostics
	if i := bytes.IndexFunc(src, func(r rune) bool { return !unicode.IsSpace(r) }); i >= 0 && src[i] == '{' {
		return nil, nil, hcl.Diagnostics{diagnostic(hcl.DiagError, rangeAt(src, i, 1, filename), "the file begins with a brace, as JSON does",
			"Write blocks and attributes instead:\n"+smallest, related{})}
	}
	for {
		file, diags := hclsyntax.ParseConfig(text, filename, hcl.InitialPos)
		if !diags.HasErrors() {
			return file.Body.(*hclsyntax.Body), blanked, out
		}
		d := firstOf(diags)
		line := d.Subject.Start.Line
		if blanked[line] {
			return nil, blanked, out // caused by the blanking itself
		}
		if d.Summary == "Attribute redefined" {
			out = append(out, redefined(d, file.Body.(*hclsyntax.Body), src))
		} else {
			out = append(out, explain(d, src))
		}
		if len(out) == maxSyntaxErrors {
			return nil, blanked, append(out, diagnostic(hcl.DiagError, *d.Subject, "too many syntax errors", "Only the first are shown. Is this a weir configuration? See the examples.", related{}))
		}
		if unclosed(d) || len(src) > 1<<20 {
			return nil, blanked, out
		}
		if joinBrace(text, d.Subject.Start.Byte) {
			continue // the same line again is an error that joining made
		}
		blank(text, d.Subject.Start.Byte)
		blanked[line] = true
	}
}

// firstOf returns the error that stands first in the file; of several in one
// line the parser's, whose texts say more than the scanner's, unless the
// scanner found a character that is foreign to the language.
func firstOf(diags hcl.Diagnostics) *hcl.Diagnostic {
	first := diags[0]
	for _, d := range diags[1:] {
		if d.Subject.Start.Line < first.Subject.Start.Line {
			first = d
		}
	}
	return first
}

// unclosed reports whether something is open at the end of the file. Its line
// is the innocent one where it began, and blanking that would only move the
// error to the next brace.
func unclosed(d *hcl.Diagnostic) bool {
	return strings.HasPrefix(d.Summary, "Unclosed") || strings.HasPrefix(d.Summary, "Unterminated")
}

// joinBrace moves a { that stands alone on the line after its header to the end
// of the header, without moving any other byte or line: the newline between
// them takes the place of the brace.
func joinBrace(text []byte, at int) bool {
	end := bytes.IndexByte(text[at:], '\n')
	if end < 0 {
		return false
	}
	end += at
	brace := end + 1
	for brace < len(text) && (text[brace] == ' ' || text[brace] == '\t') {
		brace++
	}
	if brace >= len(text) || text[brace] != '{' || !headerLine.Match(text[bytes.LastIndexByte(text[:at], '\n')+1:end]) {
		return false
	}
	text[end], text[brace] = '{', '\n'
	for i := end + 1; i < brace; i++ {
		text[i] = ' '
	}
	if text[end-1] == '\r' {
		text[end-1] = ' '
	}
	return true
}

var headerLine = regexp.MustCompile(`^\s*\w+(\s+"[^"{}]*"|\s+\w+)*\s*$`)

// redefined finds the first of two attributes of one name: the HCL library
// tells about it in words only.
func redefined(d *hcl.Diagnostic, root *hclsyntax.Body, src []byte) *hcl.Diagnostic {
	name := string(d.Subject.SliceBytes(src))
	body := root
	for again := true; again; {
		again = false
		for _, b := range body.Blocks {
			if b.Body.SrcRange.ContainsPos(d.Subject.Start) {
				body, again = b.Body, true
				break
			}
		}
	}
	var first related
	if a := body.Attributes[name]; a != nil {
		first = related{a.NameRange, "first set here"}
	}
	return diagnostic(hcl.DiagError, *d.Subject, fmt.Sprintf("%s is set twice", name), "Remove one of the two lines.", first)
}

// openBlock guesses which block of a file lacks its closing brace. The parser
// can only name the outermost one; the indentation shows where the operator
// thought that a block had ended.
func openBlock(src []byte, filename string) (hcl.Range, bool) {
	type opening struct {
		indent int
		at     hcl.Range
	}
	var stack []opening
	for at, number := 0, 1; at < len(src); number++ {
		line := lineAt(src, at)
		code := strings.TrimSpace(line)
		indent := len(line) - len(strings.TrimLeft(line, " \t"))
		if code != "" && len(stack) > 0 {
			top := stack[len(stack)-1]
			closes := code[0] == '}' && indent < top.indent
			// A block of the top level at the margin, inside another one.
			word, _, _ := strings.Cut(code, " ")
			starts := indent == 0 && code[0] != '#' && rootBlock.block(word) != nil && strings.HasSuffix(code, "{")
			if closes || starts {
				return top.at, true
			}
		}
		if code != "" && code[0] != '#' && !strings.HasPrefix(code, "//") {
			for i := strings.Count(line, "{") - strings.Count(line, "}"); i != 0; {
				if i > 0 {
					from, to := indent, len(strings.TrimRight(line, " \t"))
					stack = append(stack, opening{indent, hcl.Range{
						Filename: filename,
						Start:    hcl.Pos{Line: number, Column: utf8.RuneCountInString(line[:from]) + 1, Byte: at + from},
						End:      hcl.Pos{Line: number, Column: utf8.RuneCountInString(line[:to]) + 1, Byte: at + to},
					}})
					i--
					continue
				}
				stack = stack[:max(0, len(stack)-1)]
				i++
			}
		}
		next := bytes.IndexByte(src[at:], '\n')
		if next < 0 {
			break
		}
		at += next + 1
	}
	return hcl.Range{}, false
}

// blank overwrites the line that holds a byte with spaces. Braces that it
// opens or closes for other lines stay, behind a placeholder for the header.
func blank(text []byte, at int) {
	start := bytes.LastIndexByte(text[:min(at, len(text))], '\n') + 1
	end := len(text)
	if i := bytes.IndexByte(text[start:], '\n'); i >= 0 {
		end = start + i
	}
	line := text[start:end]
	open := bytes.Count(line, []byte("{")) - bytes.Count(line, []byte("}"))
	if string(bytes.TrimSpace(line)) == "}" {
		open = 0 // one too many: nothing else can be wrong with this line
	}
	for i := range line {
		if line[i] != '\r' {
			line[i] = ' '
		}
	}
	switch {
	case open > 0 && len(line) >= 3:
		copy(line, "x {")
	case open < 0 && len(line) >= 1:
		line[0] = '}'
	}
}

// translate writes a diagnostic of the HCL library as ours are written, and
// adds what to do where the library does not say it.
func translate(d *hcl.Diagnostic) *hcl.Diagnostic {
	out := *d
	out.Expression, out.EvalContext = nil, nil // values may be secrets
	r, size := utf8.DecodeRuneInString(out.Summary)
	out.Summary = strings.ToLower(string(r)) + out.Summary[size:]
	out.Detail = strings.ReplaceAll(out.Detail, "An argument", "An attribute")
	if d.Summary == "Invalid dynamic for_each value" {
		out.Summary = "for_each takes a list or a map"
		out.Detail += ` Write for_each = ["10.0.0.11:5432", "10.0.0.12:5432"]`
	}
	if d.Summary == "Call to unknown function" && !strings.Contains(d.Detail, "Did you mean") {
		out.Detail += " Functions are: file, jsondecode, tonumber, tobool, tostring, split, join, concat, trimspace and some more."
	}
	return &out
}

// explain turns a syntax error into what to type instead. It looks at the line
// as the operator does: most such lines are another program's way of saying
// something that can be said here.
func explain(d *hcl.Diagnostic, src []byte) *hcl.Diagnostic {
	out := translate(d)
	if d.Summary == "Unclosed configuration block" {
		out.Summary, out.Detail = "closing brace is missing", "The block has no } before the end of the file. Add it after the last line of the block."
		if at, ok := openBlock(src, d.Subject.Filename); ok {
			out.Subject = &at
			out.Detail = "By the indentation of the lines below, this block has no }. Add it after the last line of the block."
		}
		return out
	}
	line := lineAt(src, d.Subject.Start.Byte)
	for _, rule := range lineRules {
		m := rule.pattern.FindStringSubmatchIndex(line)
		if m == nil || m[2*rule.mark] < 0 {
			continue
		}
		group := func(i int) string {
			if m[2*i] < 0 {
				return ""
			}
			return line[m[2*i]:m[2*i+1]]
		}
		summary, detail := rule.explain(group)
		if summary == "" {
			continue
		}
		out.Summary, out.Detail = summary, detail
		out.Subject = within(src, line, *d.Subject, m[2*rule.mark], m[2*rule.mark+1])
		return out
	}
	if extra, ok := syntaxHints[d.Summary]; ok {
		out.Detail += " " + extra
	}
	return out
}

// within is the range of a part of the line that holds at.
func within(src []byte, line string, at hcl.Range, from, to int) *hcl.Range {
	start := bytes.LastIndexByte(src[:min(at.Start.Byte, len(src))], '\n') + 1
	return &hcl.Range{
		Filename: at.Filename,
		Start:    hcl.Pos{Line: at.Start.Line, Column: utf8.RuneCountInString(line[:from]) + 1, Byte: start + from},
		End:      hcl.Pos{Line: at.Start.Line, Column: utf8.RuneCountInString(line[:to]) + 1, Byte: start + to},
	}
}

// lineAt is the line of the source that holds a byte, without its ending.
func lineAt(src []byte, at int) string {
	at = min(at, len(src))
	start := bytes.LastIndexByte(src[:at], '\n') + 1
	end := len(src)
	if i := bytes.IndexByte(src[start:], '\n'); i >= 0 {
		end = start + i
	}
	return strings.TrimSuffix(string(src[start:end]), "\r")
}

// syntaxHints are additions to texts of the HCL library.
var syntaxHints = map[string]string{
	"Unclosed configuration block":          "Add the missing }.",
	"Invalid string literal":                `The label of a block can't be computed. For servers from a list, write dynamic "server" { for_each = ..., labels = [server.value], content {} }, each on its own line.`,
	"Missing item separator":                `Put a comma between the items, and a ] at the end of the list.`,
	"Invalid number literal":                `If it is an address or a duration, put it in quotes.`,
	"Invalid expression":                    `Texts stand in double quotes: NAME = "VALUE"`,
	"Unterminated template string":          `Add the missing ".`,
	"Invalid multi-line string":             `Is the " at the end of the line missing?`,
	"Missing newline after definition":      `Begin a new line here.`,
	"Argument or block definition required": `A line is NAME = VALUE, or begins a block: NAME "LABEL" {`,
}

// A lineRule recognizes a line that can't be parsed. Its explain gets the
// pattern's groups and returns summary and detail, or "" if it has nothing to
// say after all. The group that mark numbers is what will be underlined.
type lineRule struct {
	pattern *regexp.Regexp
	mark    int
	explain func(group func(int) string) (summary, detail string)
}

var lineRules = []lineRule{
	// what git leaves in a file
	{regexp.MustCompile(`^(<{7}|={7}|>{7}|\|{7})(?: .*)?$`), 0, func(func(int) string) (string, string) {
		return "unresolved merge conflict", "Keep one of the two versions and remove the lines of <, = and >."
	}},
	// upstream “db” {
	{regexp.MustCompile(`([“”„‘’‚«»]([^“”„‘’‚«»]*)[“”„‘’‚«»]?)`), 1, func(g func(int) string) (string, string) {
		return "typographic quotes", fmt.Sprintf("Type straight ones: %s", quote(g(2)))
	}},
	// name = 'value'
	{regexp.MustCompile(`^[^"#]*?('([^'"]*)')`), 1, func(g func(int) string) (string, string) {
		return "single quotes", fmt.Sprintf("Texts stand in double quotes: %s", quote(g(2)))
	}},
	// server "${local.host}:80" {
	{regexp.MustCompile(`^\s*(\w+)\s+("[^"]*[$%]\{[^"]*")\s*\{`), 2, explainComputedLabel},
	// server 10.0.0.1:80 weight=5;   server web1 10.0.0.1:80 check
	{regexp.MustCompile(`^\s*(server\s+([^\s{;=#]+)((?:\s+[^{;#]*[^{;#\s])?)\s*;?)\s*(?:#.*)?$`), 1, explainServer},
	// health_check interval=10 passes=2;   resolver 10.0.0.1 valid=30s;
	{regexp.MustCompile(`^\s*(health_check(\s+[^{}";#]*)?\s*;)\s*(?:#.*)?$`), 1, explainHealthCheck},
	{regexp.MustCompile(`^\s*(health_check(\s+[a-z_]+=[^{}";#]*[^{}";#\s]))\s*(?:#.*)?$`), 1, explainHealthCheck},
	{regexp.MustCompile(`^\s*(resolver\s+([^{}";#=\s][^{}";#]*[^{}";#\s])\s*;?)\s*(?:#.*)?$`), 1, explainResolver},
	// queue 100 timeout=70s;
	{regexp.MustCompile(`^\s*(queue\s+(\d+)(?:\s+timeout=(\w+))?\s*;)\s*(?:#.*)?$`), 1, explainQueue},
	// expect ~* "PONG";
	{regexp.MustCompile(`^\s*(expect\s+~(\*?)\s*"([^"]*)"\s*;?)\s*(?:#.*)?$`), 1, explainExpect},
	// server "a" { weight = 1, max_fails = 2 }
	{regexp.MustCompile(`^\s*(\w+(?:\s+"[^"]*"|\s+\w+)*)\s*(\{\s*(\w+\s*=[^{}]*?[,;\s]\s*\w+\s*=[^{}]*?)\s*[,;]?\s*\})\s*;?$`), 2, explainOneLine},
	// name = $value
	{regexp.MustCompile(`^\s*([\w-]+)\s*=\s*(\$\{?(\w+)\}?)`), 2, func(g func(int) string) (string, string) {
		value := "env." + g(3)
		if a := anyAttribute(g(1)); a != nil && a.kind == kindTemplate && isVariable(g(3)) {
			value = g(3)
		}
		return fmt.Sprintf("%s is not how a variable is written", g(2)), fmt.Sprintf("Write %s = %s", g(1), value)
	}},
	// name = "value
	{regexp.MustCompile(`^\s*([\w-]+)\s*=\s*("[^"]*)$`), 2, explainOpenQuote},
	{regexp.MustCompile(`^[^"#]*(?:"[^"]*"[^"#]*)*("[^"]*)$`), 1, func(func(int) string) (string, string) {
		return `closing " is missing`, `Add it where the text ends.`
	}},
	// name = value;
	{regexp.MustCompile(`^\s*([\w-]+)\s*=\s*([^;]*?)\s*(;)\s*(?:#.*|//.*)?$`), 3, explainSemicolon},
	// name = value,
	{regexp.MustCompile(`^\s*([\w-]+)\s*=\s*([^,\[\]{}()]*?)\s*(,)\s*(?:#.*|//.*)?$`), 3, explainComma},
	// name = 10m, name = 10.0.0.1:80, name = db:80, name = /path
	{regexp.MustCompile(`^\s*([\w-]+)\s*=\s*([^"'\s\[\]{}(),;#]+)\s*(?:#.*|//.*)?$`), 2, explainUnquoted},
	// name = [10.0.0.1:80, ...]
	{regexp.MustCompile(`^\s*([\w-]+)\s*=\s*(\[[^"'\[\]{}()#]*\])\s*;?\s*(?:#.*|//.*)?$`), 2, explainUnquotedList},
	// name: value
	{regexp.MustCompile(`^\s*-?\s*("?([\w-]+)"?\s*:(?:\s+(.*?))?)\s*,?$`), 1, explainColon},
	// - value
	{regexp.MustCompile(`^\s*(-\s+(\S+))\s*$`), 1, func(g func(int) string) (string, string) {
		return "this is not YAML", fmt.Sprintf("A list is written NAME = [%s, ...]; servers and listeners are blocks", quote(g(2)))
	}},
	// name := value, name == value
	{regexp.MustCompile(`^\s*([\w-]+)\s*(:=|==|=>|\+=)`), 2, func(g func(int) string) (string, string) {
		return fmt.Sprintf("%q does not set a value", g(2)), fmt.Sprintf("Write %s = VALUE", g(1))
	}},
	// [section]
	{regexp.MustCompile(`^\s*(\[+\s*"?([\w.-]+)"?\s*\]+)\s*$`), 1, func(g func(int) string) (string, string) {
		return "sections are not written in brackets", fmt.Sprintf("A block has braces: write %s", blockExample(g(2)))
	}},
	// }}
	{regexp.MustCompile(`^\s*\}\s*(\S.*)$`), 1, func(func(int) string) (string, string) {
		return "something follows a closing brace", "Each } that ends a block stands alone on its line. If there is one } too many, remove it."
	}},
	{regexp.MustCompile(`^\s*(\})\s*$`), 1, func(func(int) string) (string, string) {
		return "closing brace without an opening one", "Remove the }, or look above for a block that lost its {."
	}},
	// listener "a"      (the { is on the next line, or missing)
	{regexp.MustCompile(`^\s*((\w+)(\s+"[^"]*")?)\s*(?:#.*|//.*)?$`), 1, explainNoBrace},
	// name value;   name value
	{regexp.MustCompile(`^\s*(([\w-]+)\s+([^{=;#]*[^{=;#\s])\s*;?)\s*(?:#.*)?$`), 1, explainDirective},
	// random two least_time=first_byte;
	{regexp.MustCompile(`^\s*((random)\s+([^{=;#\s][^{;#]*[^{;#\s])\s*;?)\s*(?:#.*)?$`), 1, explainDirective},
	// name;
	{regexp.MustCompile(`^\s*(([\w-]+)\s*;)\s*$`), 2, explainWord},
	// limit_conn_zone $binary_remote_addr zone=addr:10m;
	{regexp.MustCompile(`^\s*(([\w-]+)\s+[^={};#]+=[^{};#]*;)\s*(?:#.*)?$`), 1, explainParameters},
}

// explainComputedLabel offers the block that may have computed labels.
func explainComputedLabel(g func(int) string) (string, string) {
	return "the label of a block can't be computed", fmt.Sprintf("A dynamic block makes blocks from a list. Write\ndynamic %q {\n  for_each = [%s]\n  labels   = [%s.value]\n  content {}\n}", g(1), g(2), g(1))
}

// asValue writes a bare word as a value of an attribute.
func asValue(k kind, text string) string {
	if inner := strings.Trim(text, `"`); k == kindString && text == `"`+inner+`"` && !strings.Contains(inner, `"`) {
		return text // with its escapes
	}
	text = strings.Trim(text, `"'`)
	switch k {
	case kindNumber, kindRatio, kindPercent:
		if ratio, ok := percent(text); ok && k == kindRatio {
			return ratio
		}
		if _, ok := parseNumber(text); ok {
			return text
		}
	case kindTemplate:
		if isVariable(text) {
			return text
		}
		return `"` + withBraces(text) + `"`
	case kindBool:
		switch text {
		case "true", "false":
			return text
		case "on", "yes", "1":
			return "true"
		case "off", "no", "0":
			return "false"
		}
	case kindList:
		var items []string
		for _, f := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' || r == '[' || r == ']' }) {
			if _, ok := parseNumber(f); ok {
				f = "0.0.0.0:" + f
			} else if port, ok := strings.CutPrefix(f, "*:"); ok {
				f = "0.0.0.0:" + port
			}
			items = append(items, quote(strings.Trim(f, `"'`)))
		}
		return "[" + strings.Join(items, ", ") + "]"
	case kindDuration:
		if _, ok := parseNumber(text); ok {
			return quote(text + "s")
		}
	case kindRate:
		if _, ok := parseNumber(text); ok {
			return quote(text + "/s")
		}
	case kindByteRate:
		if m := foreignSize.FindStringSubmatch(text); m != nil {
			return quote(m[1] + map[string]string{"": "B", "k": "KiB", "m": "MiB", "g": "GiB"}[strings.ToLower(m[2])] + "/s")
		}
	}
	return quote(text)
}

// setting writes NAME = VALUE for a word and the bare text beside it.
func setting(name, text string) string {
	if a := anyAttribute(name); a != nil {
		return fmt.Sprintf("%s = %s", name, asValue(a.kind, text))
	}
	if c := anyBlock(name); c != nil {
		return headerExample(c)
	}
	if _, ok := parseNumber(text); ok || text == "true" || text == "false" || strings.HasPrefix(text, `"`) {
		return fmt.Sprintf("%s = %s", name, text)
	}
	return fmt.Sprintf("%s = %s", name, quote(text))
}

// anyAttribute is the attribute of that name in the outermost block that has
// one: the line at hand may stand anywhere.
func anyAttribute(name string) *attribute {
	for _, b := range everyBlock() {
		if a := b.attr(name); a != nil {
			return a
		}
	}
	return nil
}

func anyBlock(name string) *block {
	for _, b := range everyBlock() {
		if c := b.block(name); c != nil {
			return c
		}
	}
	return nil
}

func known(name string) bool {
	return len(homes(name, nil)) > 0
}

func blockExample(name string) string {
	if c := anyBlock(name); c != nil {
		return headerExample(c)
	}
	return name + " { ... }"
}

func explainOneLine(g func(int) string) (string, string) {
	var parts []string
	for _, p := range regexp.MustCompile(`\w+\s*=\s*("[^"]*"|[^\s,;]+)`).FindAllString(g(3), -1) {
		parts = append(parts, "  "+p)
	}
	return "several attributes on one line", fmt.Sprintf("A block on one line may hold one. Write\n%s {\n%s\n}", g(1), strings.Join(parts, "\n"))
}

func explainSemicolon(g func(int) string) (string, string) {
	return "there are no semicolons in this language", fmt.Sprintf("The end of the line ends a setting. Write %s", setting(g(1), g(2)))
}

func explainComma(g func(int) string) (string, string) {
	return "comma after an attribute", fmt.Sprintf("The end of the line ends a setting. Write %s", setting(g(1), g(2)))
}

var unquotedValue = regexp.MustCompile(`^(\d+(\.\d+)?[a-zA-Z%/]+[\w/]*|[\w.:*/@-]*[.:/@*-][\w.:*/@-]*)$`)

func explainUnquoted(g func(int) string) (string, string) {
	if !unquotedValue.MatchString(g(2)) {
		return "", ""
	}
	_, isPercent := percent(g(2))
	if a := anyAttribute(g(1)); a != nil && a.kind == kindRatio && isPercent {
		return fmt.Sprintf("%s takes a number from 0 to 1", g(1)), fmt.Sprintf("Write %s", setting(g(1), g(2)))
	}
	return "the value is not in quotes", fmt.Sprintf("Write %s", setting(g(1), g(2)))
}

func explainUnquotedList(g func(int) string) (string, string) {
	if !strings.ContainsAny(g(2), ".:/*") {
		return "", ""
	}
	var items []string
	for _, f := range strings.FieldsFunc(strings.Trim(g(2), "[]"), func(r rune) bool { return r == ',' || r == ' ' }) {
		items = append(items, quote(f))
	}
	return "the values are not in quotes", fmt.Sprintf("Write %s = [%s]", g(1), strings.Join(items, ", "))
}

func explainOpenQuote(g func(int) string) (string, string) {
	return `closing " is missing`, fmt.Sprintf(`Write %s = %s"`, g(1), strings.TrimRight(g(2), " ;,"))
}

func explainColon(g func(int) string) (string, string) {
	const summary = "this is not YAML or JSON"
	name, value := g(2), strings.TrimRight(g(3), "{[ ")
	text, isForeign := foreignHint(name, value)
	a, c := anyAttribute(name), anyBlock(name)
	switch {
	case isForeign:
		return summary, text
	case c != nil && (value == "" || a == nil):
		return summary, fmt.Sprintf("A block has braces: write %s", headerExample(c))
	case a != nil && value == "":
		return summary, fmt.Sprintf("Values are set with an equals sign: write %s = %s", name, a.example)
	}
	return summary, fmt.Sprintf("Values are set with an equals sign: write %s", setting(name, value))
}

func explainNoBrace(g func(int) string) (string, string) {
	name, label := g(2), g(3)
	if text, ok := foreignHint(name, ""); ok {
		return fmt.Sprintf("unknown word %q", name), text
	}
	a, c := anyAttribute(name), anyBlock(name)
	switch {
	case c != nil && (label != "" || a == nil):
		return "opening brace is missing", fmt.Sprintf("The { stands at the end of this line: write %s {", g(1))
	case a != nil:
		return fmt.Sprintf("%s has no value", name), fmt.Sprintf("Write %s = %s", name, a.example)
	}
	return "", ""
}

func explainDirective(g func(int) string) (string, string) {
	name, value := g(2), g(3)
	if name == "listen" {
		return "equals sign is missing", explainListen(value)
	}
	second, rest, _ := strings.Cut(value, " ")
	if text, ok := foreignHint(name+"_"+second, rest); ok { // HAProxy's timeout client 10m
		return fmt.Sprintf("unknown words \"%s %s\"", name, second), text
	}
	if text, ok := foreignHint(name, value); ok {
		return fmt.Sprintf("unknown word %q", name), text
	}
	if !known(name) {
		var names []string
		for _, b := range everyBlock() {
			names = append(names, b.words()...)
		}
		if near := nearest(name, names); near != "" {
			return fmt.Sprintf("unknown word %q, and no equals sign", name), fmt.Sprintf("Write %s", setting(near, value))
		}
		return "equals sign is missing", fmt.Sprintf("A value is set as NAME = VALUE, and no semicolon ends it: write %s", setting(name, value))
	}
	if c := anyBlock(name); c != nil && anyAttribute(name) == nil {
		if m, example := translateMethod(value); m != nil && c == balanceBlock {
			return "braces are missing", example
		}
		if c.label == "" || second == "" {
			return "braces are missing", fmt.Sprintf("Write %s", headerExample(c))
		}
		end := "{ ... }"
		if len(c.attrs) == 0 {
			end = "{}"
		}
		return "braces are missing", fmt.Sprintf("Write %s %s %s", name, quote(strings.Trim(second, `"`)), end)
	}
	return "equals sign is missing", fmt.Sprintf("Write %s", setting(name, value))
}

// explainListen translates nginx's listen, in which parameters follow one
// address. Of those only udp has to be written here.
func explainListen(value string) string {
	isAddress := func(text string) bool {
		_, err := conf.ParseListenAddress(listenAddress(text))
		return err == nil
	}
	words := strings.Fields(value)
	switch {
	case len(words) == 0, !isAddress(words[0]), slices.ContainsFunc(words[1:], isAddress):
		return "Write " + setting("listen", value)
	case slices.Contains(words, "udp"):
		return fmt.Sprintf("Write\nlisten   = [%s]\nprotocol = \"udp\"", quote(listenAddress(words[0])))
	}
	return fmt.Sprintf("Write listen = [%s]", quote(listenAddress(words[0])))
}

func explainWord(g func(int) string) (string, string) {
	if text, ok := foreignHint(g(2), ""); ok {
		return fmt.Sprintf("unknown word %q", g(2)), text
	}
	if a := anyAttribute(g(2)); a != nil && a.kind == kindBool {
		return "equals sign is missing", fmt.Sprintf("Write %s = true", g(2))
	}
	return "there are no semicolons in this language", fmt.Sprintf("A value is set as %s = VALUE", g(2))
}

// explainParameters translates another program's directive that has parameters
// with equals signs.
func explainParameters(g func(int) string) (string, string) {
	text, ok := foreignHint(g(2), "")
	if !ok {
		return "", ""
	}
	return fmt.Sprintf("unknown word %q", g(2)), text
}
