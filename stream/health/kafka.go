package health

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirlb/weir/conf"
)

// newKafka returns a probe that asks a broker for its ApiVersions, and logs in by
// SASL PLAIN if there is a user. It uses franz-go's messages and not its client,
// which is made to follow a whole cluster.
func newKafka(h *conf.HealthCheck, at *endpoint) (probe, error) {
	return &visit{at: at, talk: func(_ context.Context, c net.Conn) (reading, error) { return askKafka(h, c) }}, nil
}

func askKafka(h *conf.HealthCheck, c net.Conn) (reading, error) {
	k := &kafka{conn: c}
	// Version 0, because brokers of all ages know it.
	v, err := k.do("ApiVersions", &kmsg.ApiVersionsRequest{})
	if err != nil {
		return reading{}, err
	}
	if err := kerr.ErrorForCode(v.(*kmsg.ApiVersionsResponse).ErrorCode); err != nil {
		return reading{}, err
	}
	if h.User == "" {
		return alive(""), nil
	}
	v, err = k.do("SaslHandshake", &kmsg.SASLHandshakeRequest{Version: 1, Mechanism: "PLAIN"})
	if err != nil {
		return reading{}, err
	}
	if err := kerr.ErrorForCode(v.(*kmsg.SASLHandshakeResponse).ErrorCode); err != nil {
		return reading{}, err
	}
	v, err = k.do("SaslAuthenticate", &kmsg.SASLAuthenticateRequest{SASLAuthBytes: []byte("\x00" + h.User + "\x00" + h.Password)})
	if err != nil {
		return reading{}, err
	}
	if err := kerr.ErrorForCode(v.(*kmsg.SASLAuthenticateResponse).ErrorCode); err != nil {
		return reading{}, err
	}
	return alive(""), nil
}

// kafka is a connection to a broker.
type kafka struct {
	conn   net.Conn
	serial int32 // of the last request
}

// do sends a request and reads its response. None that is sent here has tagged
// fields in its response's header.
func (k *kafka) do(name string, req kmsg.Request) (kmsg.Response, error) {
	k.serial++
	if _, err := k.conn.Write(kmsg.NewRequestFormatter(kmsg.FormatterClientID("weir")).AppendRequest(nil, req, k.serial)); err != nil {
		return nil, doing("sending "+name, err)
	}
	var head [8]byte
	if _, err := io.ReadFull(k.conn, head[:]); err != nil {
		return nil, doing("waiting for the response to "+name, err)
	}
	size, serial := binary.BigEndian.Uint32(head[:]), int32(binary.BigEndian.Uint32(head[4:]))
	if size < 4 || size > maxBytes || serial != k.serial {
		return nil, errors.New("it is not Kafka's protocol")
	}
	body := make([]byte, size-4)
	if _, err := io.ReadFull(k.conn, body); err != nil {
		return nil, doing("reading the response to "+name, err)
	}
	resp := req.ResponseKind()
	if err := resp.ReadFrom(body); err != nil {
		return nil, fmt.Errorf("a malformed response to %s", name)
	}
	return resp, nil
}
