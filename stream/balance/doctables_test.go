package balance

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// The tables of the package's documentation are what the code does: each line
// is made here and must stand in doc.go, in this order.
func TestDocTables(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	rest := string(text)
	for name, table := range map[string][]string{
		"round_robin":          roundRobinTable(),
		"failures":             failureTable(),
		"weighted_round_robin": weightedTable(),
		"least_conn":           leastConnTable(),
		"least_time":           leastTimeTable(),
		"hash":                 hashTable(),
		"consistent hash":      ringTable(),
		"ip_hash":              ipHashTable(),
		"maglev":               maglevTable(),
		"random":               randomTable(),
		"epsilon_greedy":       epsilonTable(),
		"first and single":     firstTable(),
	} {
		block := "//\t" + strings.Join(table, "\n//\t") + "\n"
		if !strings.Contains(rest, block) {
			t.Errorf("doc.go lacks the table of %s:\n%s", name, block)
		}
	}
}

func docPeers(weights ...int) []*Peer {
	var peers []*Peer
	for i, w := range weights {
		name := string(rune('a' + i))
		peers = append(peers, &Peer{Server: name, Address: name, Weight: w, Effective: w, MaxFails: 1, FailTimeout: 10})
	}
	return peers
}

func docLetter(i int) string {
	if i < 0 {
		return "-"
	}
	return string(rune('a' + i))
}

func docNew(o Options, peers []*Peer) Method {
	m, err := New(o, peers)
	if err != nil {
		panic(err)
	}
	return m
}

func roundRobinTable() []string {
	peers := docPeers(5, 1, 1)
	m := docNew(Options{Method: "round_robin"}, peers)
	lines := []string{"pick   after adding   winner   after paying"}
	for n := range 7 {
		var s Selection
		_, e := Explain(m, peers, &s, 100_000)
		var added, paid strings.Builder
		for _, c := range e.Candidates {
			fmt.Fprintf(&added, "%3d", c.Before+c.Effective)
			fmt.Fprintf(&paid, "%3d", c.After)
		}
		lines = append(lines, fmt.Sprintf("%d   %s        %s     %s", n+1, added.String(), docLetter(e.Winner), paid.String()))
	}
	return lines
}

// failureTable is a peer of weight 10 and max_fails 2 beside one of weight 1:
// two failures, then picks once fail_timeout is over.
func failureTable() []string {
	peers := docPeers(10, 1)
	peers[0].MaxFails = 2
	m := docNew(Options{Method: "round_robin"}, peers)
	now := Millis(100_000)
	lines := []string{"event                 a current  effective   b current"}
	add := func(what string) {
		lines = append(lines, fmt.Sprintf("%-22s%9d%11d%12d", what, peers[0].Current, peers[0].Effective, peers[1].Current))
	}
	for range 2 {
		var s Selection
		i := m.Pick(&s, now)
		s.MarkTried(i)
		add("pick " + docLetter(i))
		p := peers[i]
		p.Fails++
		p.Checked, p.Accessed = now.Seconds(), now.Seconds()
		p.Effective = max(0, p.Effective-p.Weight/p.MaxFails)
		add(docLetter(i) + " fails")
		add("retry, pick " + docLetter(m.Pick(&s, now)))
	}
	now += 11_000
	for range 5 {
		var s Selection
		i := m.Pick(&s, now)
		peers[0].Checked, peers[0].Fails = now.Seconds(), 0
		add("11 s later, pick " + docLetter(i))
	}
	return lines
}

func weightedTable() []string {
	peers := docPeers(4, 3, 2)
	m := newWeightedRoundRobin(peers)
	levels := []string{}
	stops := map[int]string{}
	for range 9 {
		var s Selection
		i := m.Pick(&s, 100_000)
		if stops[m.level] == "" {
			levels = append(levels, fmt.Sprint(m.level))
		}
		stops[m.level] += " " + docLetter(i)
	}
	lines := []string{"level   stops"}
	for _, l := range levels {
		var n int
		fmt.Sscan(l, &n)
		lines = append(lines, fmt.Sprintf("%s      %s", l, stops[n]))
	}
	return lines
}

func leastConnTable() []string {
	peers := docPeers(3, 1, 1)
	m := docNew(Options{Method: "least_conn"}, peers)
	lines := []string{"session   connections/weight   tied    picked"}
	for n := range 6 {
		var s Selection
		i, e := Explain(m, peers, &s, 100_000)
		peers[i].Conns++
		loads, tied := "", ""
		for k, c := range e.Candidates {
			loads += fmt.Sprintf("  %d/%d", c.Conns, c.Weight)
			if c.InTie {
				tied += " " + docLetter(k)
			}
		}
		lines = append(lines, strings.TrimRight(fmt.Sprintf("%d        %s       %-8s%s", n+1, loads, tied, docLetter(i)), " "))
	}
	return lines
}

func leastTimeTable() []string {
	t := timing{mode: FirstByte}
	lines := []string{"average   not picked for   counts as   connections   load"}
	for _, c := range []struct {
		avg   Millis
		idle  Seconds
		conns int
	}{{15, 0, 0}, {19, 0, 2}, {45, 0, 0}, {45, 0, 1}, {900, 0, 0}, {900, 22, 0}, {7000, 0, 0}} {
		p := docPeers(1)[0]
		p.Average[FirstByte], p.Checked, p.Conns = c.avg, 1000-c.idle, c.conns
		load := t.load(p, 1_000_000)
		lines = append(lines, fmt.Sprintf("%4d ms   %8d s       %6d ms   %8d      %6d", c.avg, c.idle, load/int64(1+c.conns), c.conns, load))
	}
	return lines
}

func hashTable() []string {
	peers := docPeers(5, 3, 2)
	peers[0].Admin = Down
	m := docNew(Options{Method: "hash"}, peers)
	lines := []string{"round   lot of 10   holder"}
	s := Selection{Key: []byte("10.0.0.3")}
	_, e := Explain(m, peers, &s, 100_000)
	for n, p := range e.Probes {
		lines = append(lines, fmt.Sprintf("%d       %d           %s, %s", n, p.At, docLetter(p.Peer), p.Left))
	}
	return lines
}

func ringTable() []string {
	peers := docPeers(1, 1, 1)
	for i, p := range peers {
		p.Server = fmt.Sprintf("10.0.0.%d:5432", i+1)
	}
	peers[2].Admin = Down
	m := docNew(Options{Method: "hash", Consistent: true}, peers)
	s := Selection{Key: []byte("192.0.2.2")}
	_, e := Explain(m, peers, &s, 100_000)
	lines := []string{"point   value        server"}
	for _, p := range e.Probes {
		lines = append(lines, fmt.Sprintf("%-8d%-13d%s, %s", p.At, p.Hash, docLetter(p.Peer), p.Left))
	}
	return lines
}

func ipHashTable() []string {
	peers := docPeers(5, 3, 2)
	m := docNew(Options{Method: "ip_hash"}, peers)
	lines := []string{"client          lot of 10   peer"}
	for _, c := range []struct {
		text string
		key  []byte
	}{{"10.0.0.7", []byte{10, 0, 0, 7}}, {"10.0.0.250", []byte{10, 0, 0, 250}}, {"10.0.1.7", []byte{10, 0, 1, 7}}, {"unix socket", nil}} {
		s := Selection{Key: c.key}
		i, e := Explain(m, peers, &s, 100_000)
		lines = append(lines, fmt.Sprintf("%-16s%d           %s", c.text, e.Probes[0].At, docLetter(i)))
	}
	return lines
}

func maglevTable() []string {
	lines := []string{"peers           table of 13 slots"}
	for _, names := range []string{"abc", "ab"} {
		peers := docPeers(1, 1, 1)[:len(names)]
		for i, p := range peers {
			p.Address = fmt.Sprintf("10.0.0.%d:5432", i+1)
		}
		m := docNew(Options{Method: "maglev", TableSize: 13}, peers).(*maglev)
		var b strings.Builder
		for _, i := range m.table {
			b.WriteString(" " + docLetter(int(i)))
		}
		lines = append(lines, fmt.Sprintf("%-15s%s", strings.Join(strings.Split(names, ""), " "), b.String()))
	}
	return lines
}

// randomTable is exact: with choices = 2 and idle peers the second of two
// different draws wins.
func randomTable() []string {
	weights := []float64{5, 1, 1}
	lines := []string{"peer   weight   choices = 1   choices = 2, idle   choices = 2, all sessions held"}
	for i, w := range weights {
		second := 0.0
		for k, v := range weights {
			if k != i {
				second += v / 7 * w / (7 - v)
			}
		}
		lines = append(lines, fmt.Sprintf("%s      %d        %4.1f %%        %4.1f %%              %4.1f %%", docLetter(i), int(w), 100*w/7, 100*second, 100*w/7))
	}
	return lines
}

func epsilonTable() []string {
	lines := []string{"connected   first byte   weight   expected per weight"}
	for _, c := range []struct {
		ok, failed int
		took       Millis
		weight     int
	}{{10, 0, 19, 1}, {5, 5, 9, 1}, {9, 1, 9, 1}, {10, 0, 39, 4}} {
		p := docPeers(c.weight)[0]
		m := docNew(Options{Method: "epsilon_greedy", HalfLife: 10_000}, []*Peer{p}).(Tracker)
		const now = 100_000
		for range c.ok {
			m.Connected(p, 0, now)
			m.FirstByte(p, c.took, now)
			m.Released(p, Use{Took: Times{0, c.took, c.took}}, now)
		}
		for range c.failed {
			m.Released(p, Use{Took: Times{None, None, 0}, Failed: true}, now)
		}
		lines = append(lines, fmt.Sprintf("%2d of %2d    %4d ms      %4d     %8.1f ms", c.ok, c.ok+c.failed, c.took, c.weight, float64(p.Success.load(p.Weight, now))/1000/float64(c.weight)))
	}
	return lines
}

func firstTable() []string {
	lines := []string{"event                  first   single   single, failback"}
	methods := []Options{{Method: "first"}, {Method: "single"}, {Method: "single", Failback: true}}
	var picks []Method
	var lists [][]*Peer
	for _, o := range methods {
		peers := docPeers(1, 1, 1)
		lists = append(lists, peers)
		picks = append(picks, docNew(o, peers))
	}
	for _, e := range []struct {
		name string
		edit func(peers []*Peer)
	}{
		{"all up", func([]*Peer) {}},
		{"a at max_conns", func(p []*Peer) { p[0].MaxConns, p[0].Conns = 1, 1 }},
		{"a has room again", func(p []*Peer) { p[0].Conns = 0 }},
		{"a unavailable", func(p []*Peer) { p[0].Fails, p[0].Checked = 1, 100 }},
		{"a available again", func(p []*Peer) { p[0].Fails = 0 }},
		{"b unavailable", func(p []*Peer) { p[1].Fails, p[1].Checked = 1, 100 }},
	} {
		line := fmt.Sprintf("%-23s", e.name)
		for i, m := range picks {
			e.edit(lists[i])
			var s Selection
			line += fmt.Sprintf("%-8s ", docLetter(m.Pick(&s, 100_000)))
		}
		lines = append(lines, strings.TrimRight(line, " "))
	}
	return lines
}
