package health

import (
	"context"
	"errors"
	"fmt"

	"github.com/weirlb/weir/conf"
)

// A probe asks one server, again and again. Only its check's goroutine uses it.
type probe interface {
	// check asks once and returns what the server said, or why that is a
	// failure. It returns as soon as ctx is done.
	check(ctx context.Context) (reading, error)
	// end is called after each check, and with last = true once more when there
	// will be no other or when the check has panicked. It says goodbye and closes
	// the connection, unless that is kept for the next check. It takes no longer
	// than [goodbye].
	end(last bool)
}

// try has a probe check once. A panic is a failure: some of the protocols are
// read by others' code, which may not expect what a wrong server sends.
func try(ctx context.Context, p probe) (r reading, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			p.end(true)
			r, err = reading{}, fmt.Errorf("a panic at what the server says: %v", reason)
		}
	}()
	return p.check(ctx)
}

// kinds makes the probe of each kind of check. A mistake in the configuration
// that was not found before is an error.
var kinds = map[conf.CheckKind]func(*conf.HealthCheck, *endpoint) (probe, error){
	conf.CheckTCP:        newTCP,
	conf.CheckTLS:        newTLS,
	conf.CheckHTTP:       newHTTP,
	conf.CheckSendExpect: newSendExpect,
	conf.CheckPostgres:   newPostgres,
	conf.CheckMySQL:      newMySQL,
	conf.CheckRedis:      newRedis,
	conf.CheckAMQP:       newAMQP,
	conf.CheckMQTT:       newMQTT,
	conf.CheckNATS:       newNATS,
	conf.CheckKafka:      newKafka,
	conf.CheckUDP:        newUDP,
}

func newProbe(h *conf.HealthCheck, at *endpoint) (probe, error) {
	create := kinds[h.Kind]
	if create == nil {
		return nil, errors.New("unknown kind")
	}
	return create(h, at)
}
