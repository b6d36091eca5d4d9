package metrics

import (
	"bytes"
	"os"
	"strconv"
)

// netstat has the counters of the process's network namespace.
const netstat = "/proc/self/net/netstat"

// kernel tells what the kernel counts for all sockets together. What can't be
// read is left out.
func (s sink) kernel() {
	text, err := os.ReadFile(netstat)
	if err != nil {
		return
	}
	c := parseNetstat(text, "TcpExt:")
	if n, ok := c["ListenOverflows"]; ok {
		s.put(listenOverflows, n)
	}
	if n, ok := c["ListenDrops"]; ok {
		s.put(listenDrops, n)
	}
}

// parseNetstat returns the counters of one protocol: a line of names, and below
// it a line of values (proc(5)).
func parseNetstat(text []byte, protocol string) map[string]float64 {
	out := map[string]float64{}
	var names [][]byte
	for line := range bytes.Lines(text) {
		fields := bytes.Fields(line)
		if len(fields) == 0 || string(fields[0]) != protocol {
			continue
		}
		if names == nil {
			names = fields
			continue
		}
		for i := 1; i < min(len(names), len(fields)); i++ {
			if n, err := strconv.ParseFloat(string(fields[i]), 64); err == nil {
				out[string(names[i])] = n
			}
		}
		break
	}
	return out
}
