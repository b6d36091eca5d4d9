package hclfile

import (
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/weirlb/weir/conf"
)

var stepBlock = &block{
	name:   "step",
	header: "step {",
	attrs: []attribute{
		{"send", kindString, `"PING\r\n"`},
		{"send_hex", kindString, `"0d 0a"`},
		{"expect", kindString, `"PONG"`},
		{"expect_hex", kindString, `"0d 0a"`},
		{"match", kindString, `"^2[0-9][0-9] "`},
	},
}

// maxStepBytes bounds what one step sends or waits for. A check keeps as much
// of what has come.
const maxStepBytes = 16 << 10

// readSteps reads the step blocks of a health check, in their order.
func readSteps(b *body, h *conf.HealthCheck) {
	for _, s := range b.each(stepBlock) {
		var step conf.Step
		s.bytes("send", &step.Send)
		s.hex("send_hex", &step.Send)
		s.bytes("expect", &step.Expect)
		s.hex("expect_hex", &step.Expect)
		s.pattern("match", &step.Match)
		s.oneThing()
		h.Steps = append(h.Steps, step)
	}
}

// oneThing refuses a step that does nothing or several things.
func (b *body) oneThing() {
	first := ""
	for _, a := range b.schema.attrs {
		switch {
		case !b.isSet(a.name):
		case first == "":
			first = a.name
		default:
			b.d.report(b.nameRange(a.name), "a step does one thing", fmt.Sprintf("What is done in which order is said by the order of the steps: give %s a step { } of its own.", a.name),
				related{b.nameRange(first), "the step's other thing"})
		}
	}
	if first == "" && !b.d.incomplete(b) {
		b.d.errorf(b.headerAt, "the step does nothing", `Write one of send, send_hex, expect, expect_hex and match into it, such as send = "PING\r\n"`)
	}
}

func (b *body) bytes(name string, into *[]byte) {
	if text, at, ok := b.text(name); ok && b.fitsStep(name, len(text), at) {
		*into = []byte(text)
	}
}

// hex reads bytes in hexadecimal, with spaces wherever they help the eye.
func (b *body) hex(name string, into *[]byte) {
	text, at, ok := b.text(name)
	if !ok {
		return
	}
	digits := strings.Join(strings.Fields(text), "")
	bytes, err := hex.DecodeString(digits)
	clean := strings.NewReplacer("0x", "", "0X", "", `\x`, "", ":", "", ",", "", "-", "").Replace(digits)
	_, cleanErr := hex.DecodeString(clean)
	switch {
	case err == nil && b.fitsStep(name, len(bytes), at):
		*into = bytes
	case err == nil: // was reported
	case cleanErr == nil && len(clean) < 64:
		b.d.errorf(at, name+" is not hexadecimal", "It takes digits and spaces only: write %s = %q", name, clean)
	case len(digits)%2 == 1 && strings.Trim(digits, "0123456789abcdefABCDEF") == "":
		b.d.errorf(at, name+" is not hexadecimal", "It has %d digits, and a byte has two.", len(digits))
	default:
		b.d.errorf(at, name+" is not hexadecimal", `Write two digits from 0 to f for each byte, such as "0d 0a".`)
	}
}

func (b *body) fitsStep(name string, n int, at hcl.Range) bool {
	switch {
	case n == 0:
		b.d.errorf(at, name+" is empty", "Remove the step, or write %s = %s", name, b.schema.attr(name).example)
	case n > maxStepBytes:
		b.d.errorf(at, name+" is too long", "It has %d bytes, the limit is %d.", n, maxStepBytes)
	default:
		return true
	}
	return false
}

func checkSteps(b *body, h *conf.HealthCheck) {
	if len(h.Steps) == 0 && !b.d.incomplete(b) {
		b.d.errorf(b.headerAt, "a send_expect check needs a step", "Say what is sent and what must come, in order:\nstep {\n  send = \"PING\\r\\n\"\n}\nstep {\n  expect = \"PONG\"\n}")
	}
}

// checkDatagramSteps refuses to wait for a server that has not been asked.
func checkDatagramSteps(b *body, h *conf.HealthCheck) {
	steps := b.each(stepBlock)
	if len(steps) > 0 && !steps[0].isSet("send") && !steps[0].isSet("send_hex") && !b.d.incomplete(steps[0]) && !b.d.incomplete(b) {
		b.d.errorf(steps[0].headerAt, "the first step of a udp check must send", "A server over UDP knows nobody who has not sent it something. Put a step with send or send_hex before this one.")
	}
}
