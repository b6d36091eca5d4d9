package hclfile

import (
	"errors"
	"fmt"
	"math/big"
	"path/filepath"
	"regexp"
	resyntax "regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/weirlb/weir/conf"
)

// decoder turns the blocks of one file into the model. It collects mistakes
// and never stops at one.
type decoder struct {
	diags hcl.Diagnostics
	ctx   *hcl.EvalContext

	// partial says that lines with syntax errors were left out, so that what
	// is missing may be on one of them.
	partial bool
	// flawed holds the start of every body, and spoilt that of every
	// attribute, that the walk over the words has complained about.
	flawed, spoilt map[int]bool

	// directory is where relative paths begin, and read reads a file.
	directory string
	read      func(path string) ([]byte, error)

	workerConf      conf.Worker
	logConf         conf.Log
	adminConf       declaredAdmin
	resolverConf    conf.Resolver
	resolverAt      hcl.Range
	upstreams       []declaredUpstream
	listeners       []declaredListener
	listenAddresses int
	maxSessionsAt   hcl.Range
	// users holds the listeners of each upstream; set by check.
	users map[string][]*declaredListener
	// notes are for Result.Notes.
	notes []string
}

// related is a second place that a diagnostic is about. It travels in
// hcl.Diagnostic.Extra.
type related struct {
	at    hcl.Range
	label string
}

func (d *decoder) errorf(at hcl.Range, summary, detail string, args ...any) {
	d.report(at, summary, fmt.Sprintf(detail, args...), related{})
}

func (d *decoder) report(at hcl.Range, summary, detail string, also related) {
	d.diags = append(d.diags, diagnostic(hcl.DiagError, at, summary, detail, also))
}

func (d *decoder) warn(at hcl.Range, summary, detail string, also related) {
	d.diags = append(d.diags, diagnostic(hcl.DiagWarning, at, summary, detail, also))
}

func diagnostic(severity hcl.DiagnosticSeverity, at hcl.Range, summary, detail string, also related) *hcl.Diagnostic {
	out := &hcl.Diagnostic{Severity: severity, Summary: summary, Detail: detail}
	if (at != hcl.Range{}) {
		out.Subject = &at
	}
	if (also.at != hcl.Range{}) {
		out.Extra = also
	}
	return out
}

// notBuilt refuses a word of the language that this version has no code for.
func (d *decoder) notBuilt(at hcl.Range, word, place string) {
	d.errorf(at, fmt.Sprintf("%q is not built yet", word),
		"The language has this word %s, but this version of weir can't do what it says. Remove it.", place)
}

// body is one block of the file, ready to be asked for its parts.
type body struct {
	d        *decoder
	schema   *block
	attrs    hcl.Attributes
	blocks   hcl.Blocks
	label    string
	labelAt  hcl.Range
	headerAt hcl.Range
	start    int  // identifies the body in decoder.flawed
	broken   bool // a dynamic block in it could not be expanded
}

func (d *decoder) open(schema *block, from hcl.Body) *body {
	request := &hcl.BodySchema{}
	for _, a := range schema.attrs {
		request.Attributes = append(request.Attributes, hcl.AttributeSchema{Name: a.name})
	}
	for _, c := range schema.blocks {
		header := hcl.BlockHeaderSchema{Type: c.name}
		if c.label != "" {
			header.LabelNames = []string{c.label}
		}
		request.Blocks = append(request.Blocks, header)
	}
	// PartialContent, not Content: what does not belong here was reported
	// with better words by the walk over the words.
	content, _, diags := from.PartialContent(request)
	b := &body{
		d: d, schema: schema, attrs: content.Attributes, blocks: content.Blocks,
		start: from.MissingItemRange().Start.Byte, broken: diags.HasErrors(),
	}
	for _, diag := range diags {
		// An unknown value stems from a mistake that was reported already.
		if !strings.Contains(diag.Detail, "not yet known") {
			d.diags = append(d.diags, translate(diag))
		}
	}
	return b
}

func (d *decoder) incomplete(b *body) bool { return d.partial || b.broken || d.flawed[b.start] }

// each opens the blocks of one kind.
func (b *body) each(schema *block) []*body {
	var out []*body
	for _, blk := range b.blocks {
		if blk.Type != schema.name {
			continue
		}
		c := b.d.open(schema, blk.Body)
		c.headerAt = blk.DefRange
		if len(blk.Labels) > 0 {
			c.label, c.labelAt = blk.Labels[0], blk.LabelRanges[0]
		}
		out = append(out, c)
	}
	return out
}

// one opens a block that may stand only once; nil if it is absent.
func (b *body) one(schema *block) *body {
	all := b.each(schema)
	if len(all) == 0 {
		return nil
	}
	for _, extra := range all[1:] {
		b.d.report(extra.headerAt, fmt.Sprintf("second %s block", schema.name),
			fmt.Sprintf("There can be one %s. Merge the two blocks.", b.schema.place()), related{all[0].headerAt, "the first one is here"})
	}
	return all[0]
}

// holds reports whether there is a block of the kind.
func (b *body) holds(schema *block) bool {
	return slices.ContainsFunc(b.blocks, func(c *hcl.Block) bool { return c.Type == schema.name })
}

// require complains that the block lacks something, unless it may only seem so
// because of other mistakes in it.
func (b *body) require(attr, summary, detail string) {
	if a, ok := b.attrs[attr]; ok {
		// It is there: a wrong value was reported, a null one was not.
		if v, diags := b.eval(a); !diags.HasErrors() && v.IsKnown() && v.IsNull() {
			b.d.errorf(a.Expr.Range(), summary, "The value is null. %s", detail)
		}
		return
	}
	if !b.d.incomplete(b) {
		b.d.errorf(b.headerAt, summary, "%s", detail)
	}
}

// valueRange is where the attribute's value stands; zero if it is absent.
func (b *body) valueRange(name string) hcl.Range {
	if a, ok := b.attrs[name]; ok {
		return a.Expr.Range()
	}
	return hcl.Range{}
}

func (b *body) eval(a *hcl.Attribute) (cty.Value, hcl.Diagnostics) {
	if b.d.spoilt[a.NameRange.Start.Byte] {
		return cty.DynamicVal, nil
	}
	return a.Expr.Value(b.d.ctx)
}

// value evaluates an attribute. It returns false if it is absent, null, or
// wrong in a way that has been reported.
func (b *body) value(name string) (cty.Value, hcl.Range, bool) {
	a, ok := b.attrs[name]
	if !ok {
		return cty.NilVal, hcl.Range{}, false
	}
	v, diags := b.eval(a)
	for _, diag := range diags {
		b.d.diags = append(b.d.diags, translate(diag))
	}
	if diags.HasErrors() || !v.IsKnown() || v.IsNull() {
		return cty.NilVal, a.Expr.Range(), false
	}
	return v, a.Expr.Range(), true
}

// wrongType says that an attribute's value is of another type than it takes.
func (b *body) wrongType(name, takes string, v cty.Value, at hcl.Range) {
	b.d.errorf(at, fmt.Sprintf("%s takes %s", name, takes), "%s", b.instead(name, v))
}

// instead says how to write a value that came as the wrong type.
func (b *body) instead(name string, v cty.Value) string {
	a := b.schema.attr(name)
	example := fmt.Sprintf("Write %s = %s", name, a.example)
	if v.Type() == cty.String {
		literal := b.isLiteral(name)
		text := v.AsString()
		_, isNumber := parseNumber(text)
		isBool := text == "true" || text == "false"
		ratio, isPercent := percent(text)
		switch {
		case a.kind == kindRatio && isPercent:
			return fmt.Sprintf("Write %s = %s", name, ratio)
		case (a.kind == kindNumber || a.kind == kindRatio) && isNumber, a.kind == kindBool && isBool:
			if literal {
				return fmt.Sprintf("Drop the quotes: %s = %s", name, text)
			}
			convert := map[kind]string{kindNumber: "tonumber", kindRatio: "tonumber", kindBool: "tobool"}[a.kind]
			return fmt.Sprintf("The expression gives the string %q. Write %s(...) around it.", text, convert)
		case a.kind == kindBool && slices.Contains([]string{"yes", "on", "1"}, text):
			return fmt.Sprintf("Write %s = true", name)
		case a.kind == kindBool && slices.Contains([]string{"no", "off", "0"}, text):
			return fmt.Sprintf("Write %s = false", name)
		case a.kind == kindList:
			return fmt.Sprintf("Put it in brackets: %s = [%s]", name, quote(text))
		}
		return example
	}
	if v.Type() == cty.Number {
		number := v.AsBigFloat().Text('f', -1)
		switch {
		case a.kind == kindDuration && v.AsBigFloat().Sign() == 0:
			return example // the caller knows what zero means here
		case a.kind == kindDuration:
			return fmt.Sprintf("A duration is a string with a unit: %s = %q for seconds, %q for milliseconds.", name, number+"s", number+"ms")
		case a.kind == kindRate:
			return fmt.Sprintf("A rate is a string with a unit: %s = %q", name, number+"/s")
		case a.kind == kindByteRate && v.AsBigFloat().IsInt() && v.AsBigFloat().Sign() > 0 && v.AsBigFloat().Cmp(big.NewFloat(float64(conf.MaxByteRate))) <= 0:
			n, _ := v.AsBigFloat().Int64()
			return fmt.Sprintf("A rate is a string with a unit: %s = %q", name, conf.FormatByteRate(conf.ByteRate(n)))
		case a.kind == kindString:
			return fmt.Sprintf("Write %s = %q", name, number)
		case a.kind == kindBool && (number == "1" || number == "0"):
			return fmt.Sprintf("Write %s = %t", name, number == "1")
		}
	}
	if (v.Type().IsTupleType() || v.Type().IsListType()) && a.kind == kindString && v.LengthInt() == 1 {
		if only := v.Index(cty.Zero); only.IsKnown() && !only.IsNull() && only.Type() == cty.String {
			return fmt.Sprintf("Drop the brackets: %s = %s", name, quote(only.AsString()))
		}
	}
	return example
}

// nameRange is where the attribute's name stands; zero if it is absent.
func (b *body) nameRange(name string) hcl.Range {
	if a, ok := b.attrs[name]; ok {
		return a.NameRange
	}
	return hcl.Range{}
}

// isSet reports whether the attribute has a value, which may be a wrong one.
func (b *body) isSet(name string) bool {
	a, ok := b.attrs[name]
	if !ok {
		return false
	}
	v, diags := b.eval(a)
	return diags.HasErrors() || !v.IsNull()
}

// unclear reports whether the attribute has a value that was complained about,
// so that there is no telling what was meant.
func (b *body) unclear(name string) bool {
	a, ok := b.attrs[name]
	if !ok {
		return false
	}
	if v, diags := b.eval(a); diags.HasErrors() || !v.IsKnown() {
		return true
	}
	at := a.Expr.Range()
	return slices.ContainsFunc(b.d.diags, func(d *hcl.Diagnostic) bool { return d.Subject != nil && *d.Subject == at })
}

// isLiteral reports whether the attribute's value stands in the file as it is,
// with no expression to be evaluated.
func (b *body) isLiteral(name string) bool {
	_, diags := b.attrs[name].Expr.Value(nil)
	return !diags.HasErrors()
}

// text returns a string attribute.
func (b *body) text(name string) (string, hcl.Range, bool) {
	v, at, ok := b.value(name)
	if !ok {
		return "", at, false
	}
	if v.Type() != cty.String {
		b.wrongType(name, "a string", v, at)
		return "", at, false
	}
	return v.AsString(), at, true
}

// number reads a whole number from lo to hi.
func (b *body) number(name string, lo, hi int, into *int) {
	if v, at, ok := b.value(name); ok {
		b.wholeNumber(name, "a number", v, at, lo, hi, into)
	}
}

// numberOrAuto reads a whole number from lo to hi, or "auto" as 0.
func (b *body) numberOrAuto(name string, lo, hi int, into *int) {
	v, at, ok := b.value(name)
	switch {
	case !ok:
	case v.Type() == cty.String && v.AsString() == "auto":
		*into = 0
	case v.Type() == cty.Number && v.AsBigFloat().Sign() == 0:
		b.d.errorf(at, fmt.Sprintf("%s can't be 0", name), `Write "auto", or a number from %d to %d.`, lo, hi)
	default:
		b.wholeNumber(name, `a number or "auto"`, v, at, lo, hi, into)
	}
}

func (b *body) wholeNumber(name, takes string, v cty.Value, at hcl.Range, lo, hi int, into *int) {
	if v.Type() != cty.Number {
		b.wrongType(name, takes, v, at)
		return
	}
	n, accuracy := v.AsBigFloat().Int64()
	switch {
	case accuracy != big.Exact && v.AsBigFloat().IsInt(), n < int64(lo), n > int64(hi):
		b.d.errorf(at, fmt.Sprintf("%s is out of range", name), "It takes a whole number from %d to %d.", lo, hi)
	case accuracy != big.Exact:
		b.d.errorf(at, fmt.Sprintf("%s is not a whole number", name), "It takes a whole number from %d to %d.", lo, hi)
	default:
		*into = int(n)
	}
}

func (b *body) boolean(name string, into *bool) {
	v, at, ok := b.value(name)
	switch {
	case !ok:
	case v.Type() != cty.Bool:
		b.wrongType(name, "true or false", v, at)
	default:
		*into = v.True()
	}
}

// ratio reads a number from 0 to 1.
func (b *body) ratio(name string, into *float64) {
	v, at, ok := b.value(name)
	if !ok {
		return
	}
	if v.Type() != cty.Number {
		b.wrongType(name, "a number from 0 to 1", v, at)
		return
	}
	b.ratioNumber(name, v, at, into)
}

func (b *body) ratioNumber(name string, v cty.Value, at hcl.Range, into *float64) {
	n, _ := v.AsBigFloat().Float64()
	ratio, isPercent := percent(v.AsBigFloat().Text('f', -1) + "%")
	switch {
	case n > 1 && isPercent:
		b.d.errorf(at, fmt.Sprintf("%s is out of range", name), "It takes a number from 0 to 1. If these are percents, write %s = %s", name, ratio)
	case n < 0 || n > 1:
		b.d.errorf(at, fmt.Sprintf("%s is out of range", name), "It takes a number from 0 to 1, such as %s.", b.schema.attr(name).example)
	default:
		*into = n
	}
}

// percent reads a percentage, or the ratio that it is.
func (b *body) percent(name string, zero zeroRule, into *float64) {
	v, at, ok := b.value(name)
	if !ok {
		return
	}
	switch v.Type() {
	case cty.Number:
		b.ratioNumber(name, v, at, into)
	case cty.String:
		text := v.AsString()
		ratio, err := conf.ParsePercent(text)
		switch {
		case err == nil:
			*into = ratio
		case zero == orOff && text == "off":
			*into = 0
		case zero == orOff && slices.Contains(wordsForOff, strings.ToLower(text)):
			b.d.errorf(at, fmt.Sprintf("%s is not a percentage", name), `Write "off".`)
		default:
			b.d.errorf(at, fmt.Sprintf("%s is not a percentage", name), "%s.", sentence(err))
		}
	default:
		b.wrongType(name, "a percentage", v, at)
	}
}

// rate reads a number of events in a second, or "off" for no limit.
func (b *body) rate(name string, into *conf.Rate) { readRate(b, name, conf.ParseRate, into) }

// byteRate reads a number of bytes in a second, or "off" for no limit.
func (b *body) byteRate(name string, into *conf.ByteRate) {
	readRate(b, name, conf.ParseByteRate, into)
}

func readRate[T conf.Rate | conf.ByteRate](b *body, name string, parse func(string) (T, error), into *T) {
	v, at, ok := b.value(name)
	if !ok {
		return
	}
	summary := fmt.Sprintf("%s is not a rate", name)
	switch {
	case v.Type() == cty.Number && v.AsBigFloat().Sign() == 0:
		b.d.errorf(at, fmt.Sprintf("%s can't be 0", name), `Write "off" for no limit, or a rate such as %s.`, b.schema.attr(name).example)
	case v.Type() != cty.String:
		b.wrongType(name, "a rate", v, at)
	case v.AsString() == "off":
		*into = 0
	case slices.Contains(wordsForOff, strings.ToLower(v.AsString())):
		b.d.errorf(at, summary, `Write "off" for no limit.`)
	default:
		rate, err := parse(v.AsString())
		if err != nil {
			b.d.errorf(at, summary, "%s.", sentence(err))
			return
		}
		*into = rate
	}
}

// pattern reads a regular expression.
func (b *body) pattern(name string, into **regexp.Regexp) {
	text, at, ok := b.text(name)
	if !ok {
		return
	}
	if text == "" {
		b.d.errorf(at, name+" is empty", "It matches anything. Remove it, or write what shall be matched: %s = %s", name, b.schema.attr(name).example)
		return
	}
	compiled, err := regexp.Compile(text)
	var syntax *resyntax.Error
	switch {
	case err == nil:
		*into = compiled
	case errors.As(err, &syntax) && syntax.Code == resyntax.ErrInvalidPerlOp:
		b.d.errorf(at, name+" is not a regular expression", "%q is not known: expressions are those of RE2, without look-around (https://github.com/google/re2/wiki/Syntax).", syntax.Expr)
	case errors.As(err, &syntax):
		b.d.errorf(at, name+" is not a regular expression", "%s: %q. A sign that stands for itself is written with two backslashes: \"\\\\+OK\".", sentence(errors.New(syntax.Code.String())), syntax.Expr)
	default:
		b.d.errorf(at, name+" is not a regular expression", "%s.", sentence(err))
	}
}

// path reads the path of a file. A relative one is taken from the
// configuration's directory, as by file(). It returns the path to read the file
// by; into gets the absolute one.
func (b *body) path(name string, into *string) (path string, at hcl.Range, ok bool) {
	text, at, ok := b.text(name)
	if !ok {
		return "", at, false
	}
	if text == "" || strings.HasSuffix(text, "/") || strings.ContainsRune(text, 0) {
		b.d.errorf(at, fmt.Sprintf("%s can't be %q", name, text), "It needs the path of a file, such as %s.", b.schema.attr(name).example)
		return "", at, false
	}
	path = text
	if !filepath.IsAbs(path) {
		path = filepath.Join(b.d.directory, path)
	}
	absolute, err := filepath.Abs(path)
	if err != nil { // the working directory is gone
		b.d.errorf(at, fmt.Sprintf("%s can't be %q", name, text), "Write an absolute path: %s.", sentence(err))
		return "", at, false
	}
	*into = absolute
	return path, at, true
}

// percent writes a percentage such as "10%" as the ratio that it is.
func percent(text string) (string, bool) {
	digits, ok := strings.CutSuffix(strings.TrimSpace(text), "%")
	n, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
	if !ok || err != nil || !(n >= 0 && n <= 100) {
		return "", false
	}
	return strconv.FormatFloat(n/100, 'f', -1, 64), true
}

// zeroRule says what stands for "no time" in a duration attribute.
type zeroRule uint8

const (
	never  zeroRule = iota // it must be a time
	orOff                  // "off" switches the timeout off
	orZero                 // "0s" is a time like any other
)

var zeroWithUnit = regexp.MustCompile(`^0+(\.0+)?(ms|s|m|h|d)$`)

func (b *body) duration(name string, zero zeroRule, into *time.Duration) {
	v, at, ok := b.value(name)
	if !ok {
		return
	}
	if v.Type() != cty.String {
		if v.Type() == cty.Number && v.AsBigFloat().Sign() == 0 {
			b.zero(name, zero, at)
			return
		}
		if v.Type() == cty.Bool && v.False() && zero == orOff {
			b.d.errorf(at, fmt.Sprintf("%s takes a duration", name), `Write "off" for no timeout.`)
			return
		}
		b.wrongType(name, "a duration", v, at)
		return
	}
	text := v.AsString()
	parsed, err := conf.ParseDuration(text)
	switch {
	case err == nil:
		*into = parsed
	case zero == orOff && text == "off":
		*into = conf.Off
	case zero == orZero && zeroWithUnit.MatchString(text):
		*into = 0
	case isZero(text):
		b.zero(name, zero, at)
	case zero != orOff && b.schema.noOff[name] != "" && slices.Contains(wordsForOff, strings.ToLower(text)):
		b.d.errorf(at, fmt.Sprintf("%s can't be off", name), "%s", b.schema.noOff[name])
	case text == "off":
		b.d.errorf(at, fmt.Sprintf("%s can't be off", name), `It takes a time, such as %s.`, b.schema.attr(name).example)
	case zero == orOff && slices.Contains(wordsForOff, strings.ToLower(text)):
		b.d.errorf(at, fmt.Sprintf("%s is not a duration", name), `Write "off" for no timeout.`)
	default:
		b.d.errorf(at, fmt.Sprintf("%s is not a valid duration", name), "%s.", sentence(err))
	}
}

// wordsForOff are what people write who mean "off".
var wordsForOff = []string{"off", "never", "none", "no", "false", "disabled", "infinite", "infinity", "unlimited", "forever", "inf"}

func isZero(text string) bool {
	f, ok := parseNumber(text)
	return zeroWithUnit.MatchString(text) || ok && f.Sign() == 0
}

// zero refuses a duration of zero and says what to write for it.
func (b *body) zero(name string, rule zeroRule, at hcl.Range) {
	summary, example := fmt.Sprintf("%s can't be 0", name), b.schema.attr(name).example
	switch rule {
	case orOff:
		b.d.errorf(at, summary, `Write "off" for none, or a time such as %s.`, example)
	case orZero:
		b.d.errorf(at, fmt.Sprintf("%s has no unit", name), `Write "0s".`)
	default:
		detail := b.schema.noOff[name]
		if detail == "" {
			detail = fmt.Sprintf("It takes a time, such as %s.", example)
		}
		b.d.errorf(at, summary, "%s", detail)
	}
}

// item is one string of a list, with the place it was written at.
type item struct {
	text string
	at   hcl.Range
}

// list returns an attribute that is a list of strings.
func (b *body) list(name string) ([]item, hcl.Range, bool) {
	v, at, ok := b.value(name)
	if !ok {
		return nil, at, false
	}
	if !v.Type().IsTupleType() && !v.Type().IsListType() && !v.Type().IsSetType() {
		b.wrongType(name, "a list of strings", v, at)
		return nil, at, false
	}
	// The elements' own places are known only if the list stands here as
	// such; those of a computed list all get the place of the expression.
	places, _ := hcl.ExprList(b.attrs[name].Expr)
	if len(places) != v.LengthInt() {
		places = nil
	}
	items, i := []item{}, 0
	for it := v.ElementIterator(); it.Next(); i++ {
		_, e := it.Element()
		at := at
		if places != nil {
			at = places[i].Range()
		}
		switch {
		case !e.IsKnown():
		case e.IsNull() || e.Type() != cty.String:
			b.d.errorf(at, fmt.Sprintf("%s takes strings", name), "Write %s = %s", name, b.schema.attr(name).example)
		default:
			items = append(items, item{e.AsString(), at})
		}
	}
	// What could not be used was reported: the list is wrong, not empty.
	return items, at, len(items) > 0 || v.LengthInt() == 0
}

// choice is one value of an attribute that takes one of a few words.
type choice[T any] struct {
	word  string
	value T
}

// choose reads an attribute that takes one of a few words.
func choose[T any](b *body, name string, choices []choice[T], later []string, into *T) {
	text, at, ok := b.text(name)
	if !ok {
		return
	}
	var words []string
	for _, c := range choices {
		if c.word == text {
			*into = c.value
			return
		}
		words = append(words, c.word)
	}
	if contains(later, text) {
		b.d.notBuilt(at, text, "for "+name)
		return
	}
	b.d.errorf(at, fmt.Sprintf("%s can't be %q", name, text), "%s", instead(text, words))
}

// instead says what to write for a word that is not among the valid ones.
func instead(word string, valid []string) string {
	if near := nearest(word, valid); near != "" {
		return fmt.Sprintf("Write %q.", near)
	}
	return fmt.Sprintf("Write %s.", oneOf(valid))
}

// maxNameBytes is the length of a file name, and of what fits in a log line.
const maxNameBytes = 255

// name checks a name that log lines and metrics will carry.
func (d *decoder) name(text string, at hcl.Range, of string) (string, bool) {
	switch {
	case text == "":
		d.errorf(at, "empty name of "+of, "Give it one that a log line can show, such as \"orders\".")
	case len(text) > maxNameBytes:
		d.errorf(at, "name of "+of+" is too long", "It has %d bytes, the limit is %d.", len(text), maxNameBytes)
	case strings.ContainsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) || r == '"' || r == '\\' }):
		clean := strings.Map(func(r rune) rune {
			if unicode.IsSpace(r) || !unicode.IsPrint(r) || r == '"' || r == '\\' {
				return '-'
			}
			return r
		}, text)
		d.errorf(at, "bad name of "+of, "Names stand in log lines and have no spaces, quotes or control characters: write %q.", clean)
	default:
		return text, true
	}
	return "", false
}

var congestionName = regexp.MustCompile(`^[a-z0-9_-]{1,15}$`)

// congestion reads the name of a TCP congestion control. Which ones there are
// depends on the kernel, so only the form is checked (TCP_CA_NAME_MAX is 16
// with the terminating zero).
func (d *decoder) congestion(b *body, into *string) {
	text, at, ok := b.text("congestion")
	if !ok {
		return
	}
	if lower := strings.ToLower(text); lower != text && congestionName.MatchString(lower) {
		d.errorf(at, fmt.Sprintf("%q is not the name of a congestion control", text), "Names have small letters only: write %q.", lower)
		return
	}
	if !congestionName.MatchString(text) {
		d.errorf(at, fmt.Sprintf("%q is not the name of a congestion control", text),
			`Write one that net.ipv4.tcp_available_congestion_control lists, such as "cubic" or "bbr": at most 15 letters, digits, - and _. For the system's default, remove the attribute.`)
		return
	}
	*into = text
}

// sentence begins an error's text with a capital letter.
func sentence(err error) string {
	text := err.Error()
	r, size := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(r)) + text[size:]
}

func parseNumber(text string) (*big.Float, bool) {
	// The length bounds the work: a mistake is a short number in quotes.
	if text == "" || len(text) > 32 || strings.ContainsAny(text, "eEpPxXiI") {
		return nil, false
	}
	f, ok := new(big.Float).SetString(text)
	return f, ok
}

// quote writes a string as an HCL file does.
func quote(text string) string {
	q := fmt.Sprintf("%q", text)
	return strings.NewReplacer("${", "$${", "%{", "%%{").Replace(q)
}

func contains(list []string, word string) bool { return slices.Contains(list, word) }

// laterSuffix adds to a suggestion that it is not built yet.
func laterSuffix(word string, later []string) string {
	if contains(later, word) {
		return " It is not built yet."
	}
	return ""
}
