package health

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/eclipse/paho.mqtt.golang/packets"

	"github.com/weirlb/weir/conf"
)

// fakeMQTT answers CONNECT with a code, and tells what it was sent.
func fakeMQTT(code byte, got chan<- packets.ControlPacket) func(net.Conn) {
	return func(c net.Conn) {
		for {
			p, err := packets.ReadPacket(c)
			if err != nil {
				return
			}
			got <- p
			switch p.(type) {
			case *packets.ConnectPacket:
				answer := packets.NewControlPacket(packets.Connack).(*packets.ConnackPacket)
				answer.ReturnCode = code
				answer.Write(c)
			case *packets.PingreqPacket:
				packets.NewControlPacket(packets.Pingresp).Write(c)
			case *packets.DisconnectPacket:
				return
			}
		}
	}
}

func TestMQTT(t *testing.T) {
	got := make(chan packets.ControlPacket, 100)
	p := newProber(t, serve(t, fakeMQTT(packets.Accepted, got)), conf.CheckMQTT, asWeir)
	ids := map[string]bool{}
	for range 3 {
		p.wantOK("")
		hello := (<-got).(*packets.ConnectPacket)
		id := hello.ClientIdentifier
		if ids[id] || len(id) != 23 || !strings.HasPrefix(id, "weir") {
			t.Errorf("client id %q", id)
		}
		ids[id] = true
		if code := hello.Validate(); code != packets.Accepted || !hello.CleanSession || hello.Username != "weir" || string(hello.Password) != "hunter2" {
			t.Errorf("code %d for %v", code, hello)
		}
		ping, bye := <-got, <-got
		if _, ok := ping.(*packets.PingreqPacket); !ok {
			t.Errorf("%v, want a PINGREQ", ping)
		}
		if _, ok := bye.(*packets.DisconnectPacket); !ok {
			t.Errorf("%v, want a DISCONNECT", bye)
		}
	}
	for code, meaning := range map[byte]string{
		1:   "bad protocol version",
		2:   "client identifier rejected",
		3:   "server unavailable",
		4:   "username or password in unknown format",
		5:   "not authorised",
		200: "unknown",
	} {
		refusal := fmt.Sprintf("refused with code %d: %s", code, meaning)
		target := serve(t, fakeMQTT(code, got))
		newProber(t, target, conf.CheckMQTT, asWeir).wantFailure(refusal)
		anonymous := newProber(t, target, conf.CheckMQTT, nil)
		if code == 4 || code == 5 { // it works, and is not for everybody
			anonymous.wantOK("answers, and wants a login")
		} else {
			anonymous.wantFailure(refusal)
		}
	}
}

func TestRealMosquitto(t *testing.T) {
	dir := openDir(t)
	port := freePort(t)
	path := need(t, "mosquitto", "mosquitto")
	config := fmt.Sprintf("listener %d 127.0.0.1\nallow_anonymous false\npassword_file %s/users\nlog_type all\nuser root\n", port, dir)
	if os.Geteuid() != 0 {
		config = strings.Replace(config, "user root\n", "", 1)
	}
	if err := os.WriteFile(dir+"/users", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, exec.Command(need(t, "mosquitto_passwd", "mosquitto"), "-b", dir+"/users", "weir", "hunter2"))
	if err := os.WriteFile(dir+"/conf", []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	log, _ := startProgram(t, exec.Command(path, "-c", dir+"/conf"))
	waitListening(t, port)
	p := newProber(t, loopback(port), conf.CheckMQTT, asWeir)
	for range 5 {
		p.wantOK("")
	}
	eventually(t, 5*time.Second, "Mosquitto has seen five clients leave in order", func() bool {
		return strings.Count(log.String(), "DISCONNECT") == 5
	})
	for line := range strings.Lines(log.String()) {
		if l := strings.ToLower(line); strings.Contains(l, "error") || strings.Contains(l, "closed") {
			t.Errorf("Mosquitto says: %s", line)
		}
	}
	newProber(t, loopback(port), conf.CheckMQTT, nil).wantOK("answers, and wants a login") // as profile = "mqtt" asks
	newProber(t, loopback(port), conf.CheckMQTT, func(h *conf.HealthCheck) { asWeir(h); h.Password = "hunter3" }).
		wantFailure("refused with code 5: not authorised")
}
