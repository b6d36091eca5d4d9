package health

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	saslplain "github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/weirlb/weir/conf"
)

func fakeKafka(t *testing.T, opts ...kfake.Opt) Target {
	t.Helper()
	cluster, err := kfake.NewCluster(append(opts, kfake.NumBrokers(1))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	return Target{Addr: mustAddr(cluster.ListenAddrs()[0]), Host: "127.0.0.1"}
}

func TestKafka(t *testing.T) {
	open := newProber(t, fakeKafka(t), conf.CheckKafka, nil)
	for range 3 {
		open.wantOK("")
	}
	secured := fakeKafka(t, kfake.EnableSASL(), kfake.Superuser("PLAIN", "weir", "hunter2"))
	newProber(t, secured, conf.CheckKafka, nil).wantOK("")
	newProber(t, secured, conf.CheckKafka, asWeir).wantOK("")
	newProber(t, secured, conf.CheckKafka, func(h *conf.HealthCheck) { asWeir(h); h.Password = "hunter3" }).
		wantFailure("waiting for the response to SaslAuthenticate: the server closed the connection") // where Kafka answers before

	// What the fake takes for a login is one: franz-go's own client passes too.
	client, err := kgo.NewClient(kgo.SeedBrokers(secured.Addr.String()), kgo.SASL(saslplain.Auth{User: "weir", Pass: "hunter2"}.AsMechanism()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.Ping(context.Background()); err != nil {
		t.Error(err)
	}
}

// Answers that are failures, and those that are not Kafka's.
func TestKafkaAnswers(t *testing.T) {
	const (
		versions  = "\x00\x00\x00\x00\x00\x00"                // no error, no versions
		handshake = "\x00\x00\x00\x00\x00\x01\x00\x05PLAIN"   // no error, one mechanism
		no        = "\x00\x21\x00\x00\x00\x01\x00\x06SCRAM-"  // 33
		denied    = "\x00\x3a\x00\x07go away\x00\x00\x00\x00" // 58
		welcome   = "\x00\x00\xff\xff\x00\x00\x00\x00"        // no message, no bytes
		tooYoung  = "\x00\x23\x00\x00\x00\x00"                // 35
		malformed = "\x00\x00\x7f\xff\xff\xff"
	)
	for _, test := range []struct {
		answers []string
		want    string
	}{
		{[]string{versions, handshake, welcome}, ""},
		{[]string{versions, handshake, denied}, "SASL_AUTHENTICATION_FAILED: SASL Authentication failed."},
		{[]string{versions, no}, "UNSUPPORTED_SASL_MECHANISM: The broker does not support the requested SASL mechanism."},
		{[]string{tooYoung}, "UNSUPPORTED_VERSION: The version of API is not supported."},
		{[]string{malformed}, "a malformed response to ApiVersions"},
	} {
		target := serve(t, func(c net.Conn) {
			for i, a := range test.answers {
				head := make([]byte, 4)
				if _, err := io.ReadFull(c, head); err != nil {
					return
				}
				io.CopyN(io.Discard, c, int64(binary.BigEndian.Uint32(head)))
				b := binary.BigEndian.AppendUint32(nil, uint32(4+len(a)))
				c.Write(append(binary.BigEndian.AppendUint32(b, uint32(i+1)), a...))
			}
			silent(c)
		})
		p := newProber(t, target, conf.CheckKafka, asWeir)
		if test.want == "" {
			p.wantOK("")
		} else {
			p.wantFailure(test.want)
		}
	}
	other := serve(t, func(c net.Conn) {
		c.Read(make([]byte, 1000))
		c.Write([]byte{0, 0, 0, 10, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0}) // to request 9
		silent(c)
	})
	newProber(t, other, conf.CheckKafka, nil).wantFailure("it is not Kafka's protocol")
}
