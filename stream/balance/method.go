package balance

import "fmt"

// Method picks a peer for one attempt of a session.
type Method interface {
	// Pick returns the index of an eligible peer that the session has not
	// tried, or -1. It changes the method's own account of the peers
	// (Current, Effective) and nothing else.
	Pick(peers []*Peer, s *Selection, now Seconds) int
}

// methods lists the balancing methods by their configuration name.
var methods = map[string]func() Method{
	"round_robin": func() Method { return roundRobin{} },
}

// New returns the method of that name.
func New(name string) (Method, error) {
	construct, ok := methods[name]
	if !ok {
		return nil, fmt.Errorf("find balancing method %q: no such method", name)
	}
	return construct(), nil
}
