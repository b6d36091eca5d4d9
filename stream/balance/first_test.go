package balance

import "testing"

func TestFirst(t *testing.T) {
	g := newGroup(t, Options{Method: "first"}, newPeers(1, 5, 100))
	if got := g.sessions(4, start); got != "aaaa" {
		t.Errorf("picked %s, want the first peer every time", got)
	}

	// Sessions that stay fill one peer after the other.
	g.peers[0].MaxConns, g.peers[1].MaxConns, g.peers[2].MaxConns = 2, 1, 1
	var filled []byte
	for range 5 {
		var s Selection
		filled = append(filled, letter(g.pick(&s, start)))
	}
	if string(filled) != "aabc-" {
		t.Errorf("filled %s, want aabc-", filled)
	}
	g.release(0, Use{Took: notConnected}, start)
	if got := g.sessions(2, start); got != "aa" {
		t.Errorf("picked %s once the first peer has room, want aa", got)
	}

	// A retry takes the next one.
	if got := g.method.Pick(allTried(3, 0), start); got != -1 {
		t.Errorf("picked %d, want nobody while the others are full", got)
	}
	g.release(2, Use{Took: notConnected}, start)
	if got := g.method.Pick(allTried(3, 0), start); got != 2 {
		t.Errorf("picked %d, want the only one with room", got)
	}
}
