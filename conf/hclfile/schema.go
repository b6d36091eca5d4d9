package hclfile

import "slices"

// kind says what an attribute's value looks like.
type kind uint8

const (
	kindString kind = iota
	kindNumber
	kindBool
	kindDuration
	kindList
	kindRatio    // a number from 0 to 1
	kindPercent  // a percentage, or a number from 0 to 1
	kindRate     // events in a second
	kindByteRate // bytes in a second
	kindTemplate // a session template
)

// attribute is one attribute of a block.
type attribute struct {
	name    string
	kind    kind
	example string // a value as a file writes it, quotes included
}

// block is the table of one kind of block: every word that it may hold.
type block struct {
	name   string
	label  string // what its label means ("name"), or "" if it has none
	header string // its opening line as an example, for messages
	single bool   // may stand only once in its parent
	open   bool   // holds any attribute (locals)
	attrs  []attribute
	blocks []*block
	later  []string // words of the language that are not built yet
	// noOff says for durations that can't be "off" why, and what to write.
	noOff map[string]string
}

// rootBlock is the file itself.
var rootBlock = &block{
	name: "file",
	// In this order they are thought of for a word that several of them have.
	blocks: []*block{localsBlock, workerBlock, logBlock, upstreamBlock, listenerBlock, adminBlock, resolverBlock},
}

var localsBlock = &block{name: "locals", header: "locals {", open: true}

func (b *block) attr(name string) *attribute {
	for i := range b.attrs {
		if b.attrs[i].name == name {
			return &b.attrs[i]
		}
	}
	return nil
}

func (b *block) block(name string) *block {
	for _, c := range b.blocks {
		if c.name == name {
			return c
		}
	}
	return nil
}

func (b *block) isLater(name string) bool { return slices.Contains(b.later, name) }

// has reports whether the language has the word in this block, now or later.
func (b *block) has(name string) bool {
	return b.attr(name) != nil || b.block(name) != nil || b.isLater(name)
}

// words lists what may be written in the block today.
func (b *block) words() []string {
	var out []string
	for _, a := range b.attrs {
		out = append(out, a.name)
	}
	for _, c := range b.blocks {
		out = append(out, c.name)
	}
	return out
}

// place names the block in a sentence: "in a server block".
func (b *block) place() string {
	if b.header == "" { // the file itself
		return "at the top of the file"
	}
	return "in " + article(b.name) + " " + b.name + " block"
}

// everyBlock lists the blocks of the language, outermost first.
func everyBlock() []*block {
	out := []*block{rootBlock}
	for i := 0; i < len(out); i++ {
		out = append(out, out[i].blocks...)
	}
	return out
}

// homes lists the blocks other than b in which the word is at home.
func homes(word string, b *block) []*block {
	var out []*block
	for _, c := range everyBlock() {
		if c != b && c.has(word) {
			out = append(out, c)
		}
	}
	return out
}

func article(noun string) string {
	if noun != "" && slices.Contains([]byte("aeiou"), noun[0]) && noun != "unix" && noun != "udp" {
		return "an"
	}
	return "a"
}
