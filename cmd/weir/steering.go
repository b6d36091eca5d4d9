package main

import (
	"fmt"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/ebpf/reuseport"
	"github.com/weirlb/weir/stream"
)

// This file joins stream, which knows no eBPF, and ebpf/reuseport, which knows
// no balancer.

type steerer struct{ *reuseport.Steering }

// newSteerer returns a steerer for a policy; auto is least sessions.
func newSteerer(p conf.Steering) (stream.Steerer, error) {
	policy, ok := map[conf.Steering]reuseport.Policy{
		conf.SteerAuto:          reuseport.LeastSessions,
		conf.SteerLeastSessions: reuseport.LeastSessions,
		conf.SteerCPU:           reuseport.CPU,
		conf.SteerHash:          reuseport.Hash,
	}[p]
	if !ok {
		return nil, fmt.Errorf("steer by %s: no such policy", p)
	}
	s, err := reuseport.New(policy)
	if err != nil {
		return nil, err
	}
	return steerer{s}, nil
}

// Began implements stream.Steerer. Workers beyond its reach are not counted: no
// group can be made for so many either.
func (s steerer) Began(worker int) {
	if worker < reuseport.MaxWorkers {
		s.Steering.Began(worker)
	}
}

// Ended implements stream.Steerer, as Began does.
func (s steerer) Ended(worker int) {
	if worker < reuseport.MaxWorkers {
		s.Steering.Ended(worker)
	}
}

// Group implements stream.Steerer. Old and new sockets of all workers have to
// fit in while one replaces the other.
func (s steerer) Group(p conf.Protocol, workers int) (stream.SteererGroup, error) {
	return group(s.NewGroup(protocol(p), min(2*max(workers, roomForWorkers), 2*reuseport.MaxWorkers)))
}

// Inherit implements stream.Steerer.
func (s steerer) Inherit(p conf.Protocol, fd int) (stream.SteererGroup, error) {
	return group(s.Steering.Inherit(protocol(p), fd))
}

// group keeps a nil pointer from becoming an interface that is not nil.
func group(g *reuseport.Group, err error) (stream.SteererGroup, error) {
	if err != nil {
		return nil, err
	}
	return g, nil
}

func protocol(p conf.Protocol) reuseport.Protocol {
	if p == conf.UDP {
		return reuseport.UDP
	}
	return reuseport.TCP
}

// roomForWorkers is how many workers a group is made for at least: reloads can
// add some.
const roomForWorkers = 16
