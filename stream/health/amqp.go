package health

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/weirlb/weir/conf"
)

// newAMQP returns a probe that keeps a connection to a virtual host and opens
// and closes a channel on it each time, which RabbitMQ does not log. RabbitMQ
// tells only after three seconds that it refuses a login: with a shorter timeout
// that is the time being up while logging in.
func newAMQP(h *conf.HealthCheck, at *endpoint) (probe, error) {
	return &keeper{at: at, open: func(_ context.Context, _ *link, c net.Conn) (session, error) {
		conn, err := amqp.Open(c, amqp.Config{
			SASL:       []amqp.Authentication{&amqp.PlainAuth{Username: h.User, Password: h.Password}},
			Vhost:      h.VHost,
			Properties: amqp.Table{"product": "weir", "connection_name": "weir health check"},
			Heartbeat:  10 * time.Second,
			Locale:     "en_US",
			FrameSize:  maxBytes,
		})
		if err != nil {
			return nil, amqpError("logging in", err)
		}
		return &amqpSession{conn}, nil
	}}, nil
}

type amqpSession struct{ conn *amqp.Connection }

func (s *amqpSession) ask(context.Context) (reading, error) {
	ch, err := s.conn.Channel()
	if err != nil {
		return reading{}, amqpError("opening a channel", err)
	}
	if err := ch.Close(); err != nil {
		return reading{}, amqpError("closing a channel", err)
	}
	return alive(""), nil
}

func (s *amqpSession) bye() { s.conn.CloseDeadline(time.Now().Add(goodbye)) }

// amqpError returns what the server said, if it was the server.
func amqpError(what string, err error) error {
	var e *amqp.Error
	switch {
	case !errors.As(err, &e):
	case e.Server:
		return fmt.Errorf("%s: %d %s", what, e.Code, e.Reason)
	case e == amqp.ErrClosed, e.Reason == io.EOF.Error():
		err = io.EOF // the one if it was noticed before, the other if only now
	default:
		err = errors.New(e.Reason)
	}
	return doing(what, err)
}
