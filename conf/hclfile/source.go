package hclfile

import (
	"bytes"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// MaxFileBytes bounds a configuration file.
const MaxFileBytes = 16 << 20

// The HCL parser and the evaluation of expressions recurse with the depth of
// the file, and a Go stack that overflows ends the process. These bounds are
// far above what a person writes and far below what a stack holds.
const (
	maxDepth = 100  // brackets, braces and templates inside one another
	maxChain = 1000 // operators in one expression, at one depth
)

// A number is written out in full, digit by digit, when it becomes text:
// 1e99999999 would take minutes.
const (
	maxDigits   = 400
	maxExponent = 308 // of a float64
)

// isLong reports whether a number has more digits than the bounds allow.
func isLong(number []byte) bool {
	if i := bytes.IndexAny(number, "eE"); i >= 0 {
		n, err := strconv.Atoi(string(number[i+1:]))
		if err != nil || n > maxExponent || n < -maxExponent {
			return true
		}
	}
	return len(number) > maxDigits
}

// checkText refuses what the parser should not see.
func checkText(src []byte, filename string) hcl.Diagnostics {
	refuse := func(at hcl.Range, summary, detail string, args ...any) hcl.Diagnostics {
		return hcl.Diagnostics{diagnostic(hcl.DiagError, at, summary, fmt.Sprintf(detail, args...), related{})}
	}
	if len(src) > MaxFileBytes {
		return refuse(hcl.Range{}, fmt.Sprintf("%s is too big", filename), "A configuration has at most %d MiB. Is this the right file?", MaxFileBytes>>20)
	}
	if bytes.HasPrefix(src, []byte("\xff\xfe")) || bytes.HasPrefix(src, []byte("\xfe\xff")) {
		return refuse(hcl.Range{}, fmt.Sprintf("%s is UTF-16 text", filename), "Save it as UTF-8, or convert it: iconv -f UTF-16 -t UTF-8 %s", filename)
	}
	if i := bytes.IndexByte(src, 0); i >= 0 {
		return refuse(rangeAt(src, i, 1, filename), "zero byte in the file", "A configuration is text. Is this the right file?")
	}
	if i := firstInvalid(src); i >= 0 {
		return refuse(rangeAt(src, i, 1, filename), "the file is not UTF-8 text",
			"Byte 0x%02x is not part of a UTF-8 character. Save the file as UTF-8; if it is Latin-1: iconv -f LATIN1 -t UTF-8 %s", src[i], filename)
	}
	return checkDepth(src, filename)
}

// firstInvalid is the index of the first byte that is not UTF-8, or -1.
func firstInvalid(src []byte) int {
	if utf8.Valid(src) {
		return -1
	}
	for i := 0; i < len(src); {
		r, size := utf8.DecodeRune(src[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return -1
}

// rangeAt is the range of n bytes at an offset, for text that no parser has
// counted the lines of.
func rangeAt(src []byte, at, n int, filename string) hcl.Range {
	line := bytes.Count(src[:at], []byte("\n")) + 1
	column := utf8.RuneCount(src[bytes.LastIndexByte(src[:at], '\n')+1:at]) + 1
	return hcl.Range{
		Filename: filename,
		Start:    hcl.Pos{Line: line, Column: column, Byte: at},
		End:      hcl.Pos{Line: line, Column: column + n, Byte: at + n},
	}
}

// checkDepth bounds the recursion that the file will cause, and the size of its
// numbers.
func checkDepth(src []byte, filename string) hcl.Diagnostics {
	// The scanner does not recurse. Its diagnostics come again with parsing.
	tokens, _ := hclsyntax.LexConfig(src, filename, hcl.InitialPos)
	refuse := func(t hclsyntax.Token, summary, detail string) hcl.Diagnostics {
		return hcl.Diagnostics{diagnostic(hcl.DiagError, t.Range, summary, detail, related{})}
	}
	type level struct {
		operators int
		byLine    bool // a newline ends an expression here
	}
	levels := []level{{byLine: true}}
	for _, t := range tokens {
		top := len(levels) - 1
		switch t.Type {
		case hclsyntax.TokenOBrace, hclsyntax.TokenOBrack, hclsyntax.TokenOParen, hclsyntax.TokenOQuote,
			hclsyntax.TokenOHeredoc, hclsyntax.TokenTemplateInterp, hclsyntax.TokenTemplateControl:
			// An opening bracket counts where it stands, too: a[0][0][0] is a
			// tower without being nested.
			levels[top].operators++
			levels = append(levels, level{byLine: t.Type == hclsyntax.TokenOBrace})
		case hclsyntax.TokenCBrace, hclsyntax.TokenCBrack, hclsyntax.TokenCParen,
			hclsyntax.TokenCQuote, hclsyntax.TokenCHeredoc, hclsyntax.TokenTemplateSeqEnd:
			if top > 0 {
				levels = levels[:top]
			}
		case hclsyntax.TokenComma:
			levels[top].operators = 0
		case hclsyntax.TokenNewline:
			if levels[top].byLine {
				levels[top].operators = 0
			}
		case hclsyntax.TokenQuotedLit, hclsyntax.TokenStringLit, hclsyntax.TokenIdent, hclsyntax.TokenComment:
		case hclsyntax.TokenNumberLit:
			if isLong(t.Bytes) {
				return refuse(t, "number is too long", fmt.Sprintf("A number has at most %d digits and an exponent from -%d to %d.", maxDigits, maxExponent, maxExponent))
			}
		default:
			levels[top].operators++
		}
		switch top := len(levels) - 1; {
		case top > maxDepth:
			return refuse(t, "brackets are too deep", fmt.Sprintf("Brackets may stand %d deep. Use locals { } for parts of it.", maxDepth))
		case levels[top].operators > maxChain:
			return refuse(t, "expression is too long", fmt.Sprintf("One expression may have %d operators. Use locals { } for parts of it.", maxChain))
		}
	}
	return nil
}
