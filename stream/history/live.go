package history

import (
	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream/internal/clock"
	"github.com/weirlb/weir/stream/internal/sys"
	"github.com/weirlb/weir/stream/upstream"
)

// Live is a session that runs.
type Live struct {
	ID       uint64 // the access log's connection
	Slot     int32  // where its worker keeps it
	Protocol conf.Protocol
	Listener string
	Upstream string
	Client   sys.Endpoint
	Peer     *upstream.Peer // nil = none yet
	Phase    string
	Tries    int
	Start    clock.Time
	Active   clock.Time // bytes last moved; before that, what the phase began with

	Received, Sent                 uint64 // from and to the client
	UpstreamSent, UpstreamReceived uint64

	Trail Trail // as far as it has come
}

// Copy returns the trail as it is now, for others to read.
func (t *Trail) Copy() Trail {
	if t == nil {
		return Trail{}
	}
	return *t
}
