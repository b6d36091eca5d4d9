package conf

import (
	"slices"
	"strings"
)

// Template is text with session variables in it, compiled at load.
type Template []Part

// Part is a piece of a Template: a variable, or text if that is "".
type Part struct {
	Text     string
	Variable Variable
}

// String returns the template as it is written in a configuration, without
// quotes.
func (t Template) String() string {
	var b strings.Builder
	for _, p := range t {
		if p.Variable != "" {
			b.WriteString("${" + string(p.Variable) + "}")
		} else {
			b.WriteString(p.Text)
		}
	}
	return b.String()
}

// Has reports whether one of the variables is part of the template.
func (t Template) Has(vars ...Variable) bool {
	return slices.ContainsFunc(t, func(p Part) bool { return slices.Contains(vars, p.Variable) })
}

// KeyVariables lists the variables that a hash key may hold: what is known of a
// session when its peer is picked.
func KeyVariables() []Variable {
	return []Variable{
		VarRemoteAddr, VarRemotePort, VarBinaryRemoteAddr, VarServerAddr, VarServerPort,
		VarProtocol, VarListener, VarUpstream, VarConnection, VarHostname, VarPid,
	}
}
