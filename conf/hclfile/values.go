package hclfile

import (
	"fmt"
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
)

// MaxValueBytes bounds the text in one value of a locals block and in one file
// that file() reads.
const MaxValueBytes = 1 << 20

// maxLocals bounds the chain of locals that refer to one another, which is
// walked by recursion.
const maxLocals = 10_000

// values holds what expressions may refer to.
type values struct {
	*decoder
	lookupEnv func(string) (string, bool)
	functions map[string]function.Function
	locals    map[string]*local
	env       map[string]cty.Value // the variables the file asks for
}

// local is one attribute of a locals block.
type local struct {
	attr  *hclsyntax.Attribute
	state localState
	value cty.Value
	bytes int // of text in the value
}

type localState uint8

const (
	localWaiting localState = iota
	localRunning            // its own references are being evaluated
	localDone
)

// declare notes the names of all locals, before anything refers to them.
func (v *values) declare(file *hclsyntax.Body) {
	for _, b := range file.Blocks {
		if b.Type != localsBlock.name {
			continue
		}
		for _, a := range inOrder(b.Body.Attributes) {
			if first, ok := v.locals[a.Name]; ok {
				v.report(a.NameRange, fmt.Sprintf("local %q is set twice", a.Name), "Remove one of the two, or give it another name.",
					related{first.attr.NameRange, "first set here"})
				continue
			}
			if len(v.locals) == maxLocals {
				v.errorf(a.NameRange, "too many locals", "A file may have %d.", maxLocals)
				return
			}
			v.locals[a.Name] = &local{attr: a, value: cty.DynamicVal}
		}
	}
}

func (v *values) localHint(name string) string {
	if len(v.locals) == 0 {
		return fmt.Sprintf("The file has no locals: write locals { %s = VALUE } at its top.", name)
	}
	names := slices.Sorted(maps.Keys(v.locals))
	if near := nearest(name, names); near != "" {
		return fmt.Sprintf("Write local.%s.", near)
	}
	return fmt.Sprintf("Write locals { %s = VALUE }, or use one of those there are: %s.", name, oneOf(names[:min(len(names), 10)]))
}

// wantEnv notes that the file refers to an environment variable and reports
// whether it is set.
func (v *values) wantEnv(name string) bool {
	if _, ok := v.env[name]; ok {
		return true
	}
	text, ok := "", false
	if v.lookupEnv != nil {
		text, ok = v.lookupEnv(name)
	}
	if ok {
		v.env[name] = cty.StringVal(text)
	}
	return ok
}

// context evaluates the locals and returns what all other expressions see.
func (v *values) context() *hcl.EvalContext {
	all := make(map[string]cty.Value, len(v.locals))
	for _, name := range slices.Sorted(maps.Keys(v.locals)) {
		v.resolve(name, hcl.Range{})
		all[name] = v.locals[name].value
	}
	return v.contextWith(all)
}

func (v *values) contextWith(locals map[string]cty.Value) *hcl.EvalContext {
	return &hcl.EvalContext{
		Variables: map[string]cty.Value{
			"local": cty.ObjectVal(locals),
			"env":   cty.ObjectVal(v.env),
		},
		Functions: v.functions,
	}
}

// resolve evaluates one local after those it refers to. A local that can't be
// evaluated stays cty.DynamicVal, an unknown value, and so does everything
// that is made from it: the mistake is reported once.
func (v *values) resolve(name string, from hcl.Range) {
	l := v.locals[name]
	if l == nil || l.state == localDone {
		return
	}
	if l.state == localRunning {
		v.errorf(from, fmt.Sprintf("local %q refers to itself", name), "Follow local.%s from here: it comes back to its own value. Write the value of one of them without the other.", name)
		return
	}
	l.state = localRunning
	defer func() { l.state = localDone }()
	if v.spoilt[l.attr.NameRange.Start.Byte] {
		return
	}
	needs := map[string]cty.Value{}
	text := 0
	for _, t := range l.attr.Expr.Variables() {
		need, ok := second(t)
		if !ok {
			continue
		}
		if t.RootName() == "env" {
			text += textBytes(v.env[need])
			continue
		}
		v.resolve(need, t.SourceRange())
		needs[need] = v.locals[need].value
		text += v.locals[need].bytes
	}
	if text > 4*MaxValueBytes {
		v.tooLong(l)
		return
	}
	value, diags := l.attr.Expr.Value(v.contextWith(needs))
	for _, diag := range diags {
		v.diags = append(v.diags, translate(diag))
	}
	if diags.HasErrors() {
		return
	}
	if l.bytes = textBytes(value); l.bytes > MaxValueBytes {
		l.bytes = 0
		v.tooLong(l)
		return
	}
	l.value = value
}

// tooLong refuses a value that would let a short file fill the memory: locals
// that double one another grow by the power of their number.
func (v *values) tooLong(l *local) {
	v.errorf(l.attr.NameRange, fmt.Sprintf("local %q is too long", l.attr.Name), "A value may hold %d KiB of text. Write less of it.", MaxValueBytes>>10)
}

// textBytes is the length of all text in a value, each element counting as
// some more.
func textBytes(v cty.Value) int {
	const perElement = 16
	if v == cty.NilVal || !v.IsKnown() || v.IsNull() {
		return 0
	}
	if v.Type() == cty.String {
		return len(v.AsString())
	}
	if !v.CanIterateElements() {
		return 0
	}
	sum := 0
	for it := v.ElementIterator(); it.Next(); {
		_, e := it.Element()
		sum += perElement + textBytes(e)
	}
	return sum
}
