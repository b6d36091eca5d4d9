package integration_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"
	"github.com/nats-io/nats.go"
	amqp "github.com/rabbitmq/amqp091-go"
)

// broker is a server that can be killed and started again.
type broker struct {
	addr    string
	start   func() *program // returns when it answers
	running *program
}

func (b *broker) kill() { b.running.stop(syscall.SIGKILL) }

// One of two brokers is killed under its clients. They come back through weir to
// the other; and when the killed one returns, its share of the new sessions
// grows over slow_start.
func brokerReturns(t *testing.T, method, check string, a, b *broker, connect func(addr string) func(context.Context) (caller, error)) {
	const (
		clients   = 20
		interval  = 500 * time.Millisecond
		slowStart = 3 * time.Second
	)
	p := start(t, `
		worker { count = 2 }
		admin {
		  listen = "unix:$dir/admin.sock"
		}
		upstream "broker" {
		  balance "$method" {}
		  server "$a" {
		    name         = "a"
		    slow_start   = "3s"
		    fail_timeout = "1s"
		  }
		  server "$b" {
		    name         = "b"
		    slow_start   = "3s"
		    fail_timeout = "1s"
		  }
		  health_check "$check" {
		    interval = "500ms"
		    timeout  = "2s"
		    rise     = 1
		    fall     = 2
		  }
		  on_state {
		    unhealthy = "close"
		  }
		}
		listener "broker" {
		  listen   = ["$listen"]
		  upstream = "broker"
		}`, vars{"method": method, "check": check, "a": a.addr, "b": b.addr})
	l := &timeline{t: t, p: p}
	l.event("weir has started")
	for _, peer := range []string{"broker/a", "broker/b"} {
		began := p.waitAxis(20*time.Second, peer, axisActive, isHealthy)
		eventually(t, 20*time.Second, peer+" has its whole share", func() bool { return p.axed(peer).SlowStart == 1 })
		took := time.Since(began.Since)
		l.at(time.Now(), "not before 3000 ms", "%s has its whole share, %d ms after it was healthy", peer, took.Milliseconds())
		if took < slowStart-10*time.Millisecond {
			t.Errorf("%s had its whole share %v after its start, want slow_start of %v", peer, took, slowStart)
		}
	}
	loyal := gather(t, manner{clients: clients, pause: 50 * time.Millisecond}, connect(p.addr))
	loyal.waitDone(20*time.Second, 50, "a", time.Time{})
	loyal.waitDone(20*time.Second, 50, "b", time.Time{})
	l.axes("broker")

	killed := l.event("a is killed")
	a.kill()
	eventually(t, 20*time.Second, "every client has come back", func() bool { return p.axed("broker/b").Conns >= clients })
	again := loyal.waitDone(20*time.Second, 1, "b", killed)
	for _, d := range filter(loyal.done(), func(d deed) bool { return d.began.After(killed) }) {
		if d.server != "b" {
			t.Errorf("a client came back to %s", d.server)
		}
		if d.began.After(again.began) {
			again = d
		}
	}
	l.at(again.done, "", "the last of a's clients works with b")
	verdict := p.waitAxis(10*time.Second, "broker/a", axisActive, isUnhealthy)
	l.promised("a is unhealthy", verdict.Since, killed, 2*interval*11/10, time.Second)
	l.axes("broker")

	before := len(loyal.suffered())
	l.event("a is started again")
	a.running = a.start()
	back := p.waitAxis(30*time.Second, "broker/a", axisActive, isHealthy)
	l.at(back.Since, "", "a is healthy")
	visitors := gather(t, manner{clients: 4, pause: 50 * time.Millisecond, once: true}, connect(p.addr))
	// Failed connects count apart from checks: one session goes to a on trial.
	tried := p.waitAxis(10*time.Second, "broker/a", axisPassive, isAvailable)
	if tried.Since.After(back.Since) {
		back = tried
	}
	l.begin = back.Since
	l.at(l.begin, "", "all axes of a allow it: slow_start begins")
	visitors.waitDone(slowStart+20*time.Second, 30, "a", back.Since.Add(slowStart))
	visitors.disperse()
	const parts = 4
	var shares [parts + 1]float64 // of a, in each quarter of slow_start and after it
	var all, itsOwn int           // sessions of the first half, which a busy machine makes few of
	for i := range shares {
		from := back.Since.Add(time.Duration(i) * slowStart / parts)
		got := filter(visitors.done(), func(d deed) bool {
			return !d.began.Before(from) && (i == parts || d.began.Before(from.Add(slowStart/parts)))
		})
		n := servers(got)
		if len(got) > 0 {
			shares[i] = float64(n["a"]) / float64(len(got))
		}
		if i < parts/2 {
			all, itsOwn = all+len(got), itsOwn+n["a"]
		}
		l.at(from, "", "from here a got %d of %d new sessions, %.0f %%", n["a"], len(got), 100*shares[i])
	}
	l.axes("broker")
	if half := float64(itsOwn) / float64(max(all, 1)); half > 0.45 || half >= shares[parts-1] || shares[parts] < 0.4 {
		t.Errorf("a's share of the new sessions was %.2f over the quarters of slow_start and after it, want it to grow from little to its own", shares)
	}
	loyal.disperse()
	if m := loyal.suffered()[before:]; len(m) > 0 {
		t.Errorf("%d clients were let down while a came back, the first: %v", len(m), m[0])
	}
	t.Logf("history of broker/a:\n%s", p.mustWeir("peers", "--history", "broker/a"))
}

func TestNATSReturns(t *testing.T) {
	t.Parallel()
	brokerReturns(t, "round_robin", "nats", startNATS(t, "a"), startNATS(t, "b"), asNATS)
}

func startNATS(t *testing.T, name string) *broker {
	t.Helper()
	server := need(t, "nats-server", "nats-server")
	addr := freeAddr(t)
	_, port, _ := net.SplitHostPort(addr)
	b := &broker{addr: addr, start: func() *program {
		p := startProgram(t, exec.Command(server, "--addr", "127.0.0.1", "--port", port, "--name", name))
		waitListening(t, port)
		return p
	}}
	b.running = b.start()
	return b
}

// natsSession is a client's, which sends messages to itself.
type natsSession struct {
	conn *nats.Conn
	sub  *nats.Subscription
}

func asNATS(addr string) func(context.Context) (caller, error) {
	return func(context.Context) (caller, error) {
		c, err := nats.Connect("nats://"+addr, nats.NoReconnect(), nats.Timeout(scaled(5*time.Second)))
		if err != nil {
			return nil, err
		}
		sub, err := c.SubscribeSync(nats.NewInbox())
		if err != nil {
			c.Close()
			return nil, err
		}
		return natsSession{c, sub}, nil
	}
}

func (s natsSession) call(ctx context.Context) (string, error) {
	if err := s.conn.Publish(s.sub.Subject, []byte("ping")); err != nil {
		return "", err
	}
	if _, err := s.sub.NextMsgWithContext(ctx); err != nil {
		return "", err
	}
	return s.conn.ConnectedServerName(), nil
}

func (s natsSession) close() { s.conn.Close() }

func TestMosquittoReturns(t *testing.T) {
	t.Parallel()
	brokerReturns(t, "least_conn", "mqtt", startMosquitto(t, "a"), startMosquitto(t, "b"), asMQTT)
}

func startMosquitto(t *testing.T, name string) *broker {
	t.Helper()
	server, pub := need(t, "mosquitto", "mosquitto"), need(t, "mosquitto_pub", "mosquitto-clients")
	addr := freeAddr(t)
	_, port, _ := net.SplitHostPort(addr)
	file := filepath.Join(tempDir(t), "mosquitto.conf")
	config := "listener " + port + " 127.0.0.1\nallow_anonymous true\npersistence false\n"
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	b := &broker{addr: addr, start: func() *program {
		p := startProgram(t, exec.Command(server, "-c", file))
		waitListening(t, port)
		// MQTT has no name of the server: a message that is kept there tells it.
		run(t, 5*time.Second, pub, "-h", "127.0.0.1", "-p", port, "-r", "-t", "name", "-m", name)
		return p
	}}
	b.running = b.start()
	return b
}

// mqttSession is a client's, which sends messages to itself.
type mqttSession struct {
	client mqtt.Client
	topic  string // its own
	server string
	got    chan string // payloads
	lost   chan struct{}
}

var mqttClients atomic.Int64

func asMQTT(addr string) func(context.Context) (caller, error) {
	return func(ctx context.Context) (caller, error) {
		id := fmt.Sprintf("weir%d", mqttClients.Add(1))
		s := &mqttSession{topic: "self/" + id, got: make(chan string, 2), lost: make(chan struct{})}
		s.client = mqtt.NewClient(mqtt.NewClientOptions().AddBroker("tcp://" + addr).SetClientID(id).
			SetAutoReconnect(false).SetConnectTimeout(scaled(5 * time.Second)).
			SetConnectionLostHandler(func(mqtt.Client, error) { close(s.lost) }))
		if err := s.wait(ctx, s.client.Connect()); err != nil {
			s.close()
			return nil, err
		}
		heard := func(_ mqtt.Client, m mqtt.Message) { s.got <- string(m.Payload()) }
		if err := s.wait(ctx, s.client.SubscribeMultiple(map[string]byte{"name": 0, s.topic: 1}, heard)); err != nil {
			s.close()
			return nil, err
		}
		var err error
		if s.server, err = s.hear(ctx); err != nil {
			s.close()
			return nil, err
		}
		return s, nil
	}
}

var errMQTTLost = errors.New("mqtt: connection lost")

func (s *mqttSession) wait(ctx context.Context, token mqtt.Token) error {
	select {
	case <-token.Done():
		return token.Error()
	case <-s.lost:
		return errMQTTLost
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *mqttSession) hear(ctx context.Context) (string, error) {
	select {
	case text := <-s.got:
		return text, nil
	case <-s.lost:
		return "", errMQTTLost
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func (s *mqttSession) call(ctx context.Context) (string, error) {
	if err := s.wait(ctx, s.client.Publish(s.topic, 1, false, "ping")); err != nil {
		return "", err
	}
	if _, err := s.hear(ctx); err != nil {
		return "", err
	}
	return s.server, nil
}

func (s *mqttSession) close() { s.client.Disconnect(0) }

func TestRabbitMQReturns(t *testing.T) {
	t.Parallel()
	a, b := startRabbitMQ(t)
	brokerReturns(t, "round_robin", "amqp", a, b, asAMQP)
}

// startRabbitMQ runs two nodes that know nothing of each other. They take long
// to start, so they do it at the same time.
func startRabbitMQ(t *testing.T) (a, b *broker) {
	t.Helper()
	scripts, _ := filepath.Glob("/usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin/rabbitmq-server")
	if len(scripts) == 0 {
		missing(t, "rabbitmq-server (Debian package rabbitmq-server)")
	}
	// Nodes ask a daemon for each other. They would start it, and leave it behind.
	epmdPort := strconv.Itoa(freePorts(t, 1))
	startProgram(t, exec.Command(need(t, "epmd", "erlang-base"), "-port", epmdPort, "-address", "127.0.0.1"))
	waitListening(t, epmdPort)
	node := func(name string) *broker {
		dir, port := tempDir(t), freePorts(t, 2)
		plugins, config := filepath.Join(dir, "enabled_plugins"), filepath.Join(dir, "rabbitmq.conf")
		for file, text := range map[string]string{plugins: "[].\n", config: fmt.Sprintf("listeners.tcp.1 = 127.0.0.1:%d\n", port)} {
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		b := &broker{addr: fmt.Sprintf("127.0.0.1:%d", port), start: func() *program {
			cmd := exec.Command(scripts[0])
			cmd.Dir, cmd.SysProcAttr = dir, asUser(t, dir)
			if cmd.SysProcAttr == nil {
				cmd.SysProcAttr = new(syscall.SysProcAttr)
			}
			cmd.SysProcAttr.Setpgid = true // a shell, and Erlang below it
			cmd.Env = append(os.Environ(), "HOME="+dir, "RABBITMQ_NODENAME="+name+"@localhost",
				"RABBITMQ_CONFIG_FILE="+config, "RABBITMQ_ENABLED_PLUGINS_FILE="+plugins, "RABBITMQ_CONF_ENV_FILE="+dir+"/none",
				"RABBITMQ_MNESIA_BASE="+dir+"/mnesia", "RABBITMQ_PID_FILE="+dir+"/pid", "RABBITMQ_LOG_BASE="+dir+"/log", "RABBITMQ_LOGS=-",
				fmt.Sprintf("RABBITMQ_DIST_PORT=%d", port+1), "ERL_EPMD_PORT="+epmdPort, "ERL_EPMD_ADDRESS=127.0.0.1",
				"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=+S 1:1 -start_epmd false -setcookie weir -kernel inet_dist_use_interface {127,0,0,1}")
			p := startProgram(t, cmd)
			p.last = syscall.SIGKILL // to end in order takes it seconds
			return p
		}}
		b.running = b.start()
		return b
	}
	a, b = node("a"), node("b")
	for _, n := range []*broker{a, b} {
		eventually(t, 60*time.Second, "RabbitMQ answers", func() bool {
			if n.running.ended() {
				t.Fatalf("RabbitMQ has ended:\n%s", n.running.log)
			}
			return strings.Contains(n.running.log.String(), "Server startup complete")
		})
	}
	return a, b
}

// amqpSession is a client's, which publishes to itself.
type amqpSession struct {
	conn   *amqp.Connection
	ch     *amqp.Channel
	queue  string
	server string
}

func asAMQP(addr string) func(context.Context) (caller, error) {
	return func(context.Context) (caller, error) {
		conn, err := amqp.DialConfig("amqp://guest:guest@"+addr+"/", amqp.Config{Dial: amqp.DefaultDial(scaled(5 * time.Second))})
		if err != nil {
			return nil, err
		}
		s, err := openAMQP(conn)
		if err != nil {
			conn.Close()
			return nil, err
		}
		return s, nil
	}
}

func openAMQP(conn *amqp.Connection) (*amqpSession, error) {
	ch, err := conn.Channel()
	if err != nil {
		return nil, err
	}
	if err := ch.Confirm(false); err != nil {
		return nil, err
	}
	q, err := ch.QueueDeclare("", false, true, true, false, nil)
	if err != nil {
		return nil, err
	}
	name, _ := conn.Properties["cluster_name"].(string)
	name, _, _ = strings.Cut(name, "@") // of the node, where there is but one
	return &amqpSession{conn, ch, q.Name, name}, nil
}

func (s *amqpSession) call(ctx context.Context) (string, error) {
	confirmation, err := s.ch.PublishWithDeferredConfirmWithContext(ctx, "", s.queue, false, false, amqp.Publishing{Body: []byte("ping")})
	if err != nil {
		return "", err
	}
	switch ok, err := confirmation.WaitContext(ctx); {
	case err != nil:
		return "", err
	case !ok:
		return "", errors.New("amqp: not confirmed")
	}
	_, ok, err := s.ch.Get(s.queue, true)
	if err == nil && !ok {
		err = errors.New("amqp: the queue is empty")
	}
	return s.server, err
}

func (s *amqpSession) close() { s.conn.Close() }
