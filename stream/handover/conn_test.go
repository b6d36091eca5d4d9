package handover

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A process that ends while it is told things has said why, or nothing.
func TestSendToOneThatHasEnded(t *testing.T) {
	for _, test := range []struct {
		name, said, want string
		ended            bool
	}{
		{name: "with a reason", said: `{"Kind":"failed","Error":"no weather"}`, want: "the other process says: no weather"},
		{name: "with garbage", said: "garbage", want: "invalid character"},
		{name: "without a word", want: ErrEnded.Error(), ended: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			ours, file, err := Pair()
			if err != nil {
				t.Fatal(err)
			}
			defer ours.Close()
			if _, err := file.WriteString(test.said); err != nil && test.said != "" {
				t.Fatal(err)
			}
			file.Close()
			err = ours.Send(&Message{Kind: Hello, Version: Version})
			if err == nil || !strings.Contains(err.Error(), test.want) || errors.Is(err, ErrEnded) != test.ended {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
		})
	}
}

// A session with as much unsent in both directions as there can be fits in one
// message.
func TestFullestSessionFits(t *testing.T) {
	ours, file, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	defer file.Close()
	fd, err := unix.Dup(int(file.Fd())) // it becomes theirs
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := FromFD(fd)
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	st := &TCPState{}
	for i := range st.Flows {
		st.Flows[i].Pending = bytes.Repeat([]byte{0xff}, MaxPending)
	}
	received := make(chan *Message, 1)
	go func() {
		m, _, err := theirs.Expect(TCP)
		if err != nil {
			t.Error(err)
		}
		received <- m
	}()
	if err := ours.Send(&Message{Kind: TCP, TCP: st}); err != nil {
		t.Fatal(err)
	}
	if m := <-received; m == nil || len(m.TCP.Flows[1].Pending) != MaxPending {
		t.Error("not all of it arrived")
	}
}
