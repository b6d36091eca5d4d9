package metrics

import "testing"

func TestParseNetstat(t *testing.T) {
	const text = "TcpExt: SyncookiesSent ListenOverflows ListenDrops\nTcpExt: 1 22 333\nIpExt: ListenDrops\nIpExt: 7\n"
	got := parseNetstat([]byte(text), "TcpExt:")
	if len(got) != 3 || got["ListenOverflows"] != 22 || got["ListenDrops"] != 333 {
		t.Errorf("got %v", got)
	}
	for _, text := range []string{"", "TcpExt:", "TcpExt: A B\n", "TcpExt: A B\nTcpExt: 1\n", "TcpExt: A\nTcpExt: x 2 3\n", "\n\n"} {
		parseNetstat([]byte(text), "TcpExt:") // must not panic
	}
}
