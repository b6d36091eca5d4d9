package hclfile

import (
	"fmt"
	"regexp"

	"github.com/weirlb/weir/conf"
)

// foreignAlgorithms are other names for the algorithms of an adaptive limit:
// those of concurrency-limits, Envoy and TCP.
var foreignAlgorithms = map[string]conf.LimitAlgorithm{
	"gradient2": conf.Gradient, "gradient_controller": conf.Gradient, "adaptive_concurrency": conf.Gradient,
	"additive_increase_multiplicative_decrease": conf.AIMD, "additive_increase": conf.AIMD, "reno": conf.AIMD, "target": conf.AIMD, "latency": conf.AIMD,
}

// translateLimitAlgorithm says what to write for another name of an algorithm.
// The algorithm is "" if there is none like it; the text is "" if the name is
// not known.
func translateLimitAlgorithm(name string) (conf.LimitAlgorithm, string) {
	normal := normalized(name)
	if ours, ok := foreignAlgorithms[normal]; ok {
		return ours, fmt.Sprintf("Write adaptive_limit %q", ours)
	}
	switch normal {
	case "fixed", "static", "constant", "none", "off", "settable":
		return "", "A limit that stays as it is stands elsewhere: max_sessions in a circuit_breaker block, or max_conns in each server block."
	}
	return "", ""
}

// foreignSize matches a size as nginx writes it.
var foreignSize = regexp.MustCompile(`^(\d+)([kKmMgG]?)$`)

// explainQueue translates nginx's queue directive.
func explainQueue(g func(int) string) (string, string) {
	lines := "  max = " + g(2)
	if g(3) != "" {
		lines += "\n  timeout = " + asValue(kindDuration, g(3))
	}
	return "a queue is a block", "It stands in the upstream block. Write\nqueue {\n" + lines + "\n}"
}
