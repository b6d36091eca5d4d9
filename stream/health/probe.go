package health

import (
	"context"
	"errors"

	"github.com/weirlb/weir/conf"
)

// A probe asks one server, again and again. Only its check's goroutine uses it.
type probe interface {
	// check asks once and returns what the server said, or why that is a
	// failure. It returns as soon as ctx is done.
	check(ctx context.Context) (reading, error)
	// end is called after each check, and with last = true once more when there
	// will be no other. It says goodbye and closes the connection, unless that
	// is kept for the next check. It takes no longer than [goodbye].
	end(last bool)
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
