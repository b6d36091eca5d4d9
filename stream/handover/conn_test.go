package handover

import (
	"errors"
	"strings"
	"testing"
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
