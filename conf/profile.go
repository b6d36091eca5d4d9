package conf

import "time"

// ProfileDefaults is what a profile sets of its listeners and of their
// upstream, wherever the file says nothing. Listeners have the timeouts of TCP
// or the datagrams of UDP, never both.
type ProfileDefaults struct {
	TCP, UDP bool // the listeners that may have the profile

	ConnectTimeout   time.Duration
	IdleTimeout      time.Duration
	HalfCloseTimeout time.Duration
	DeadPeerTimeout  time.Duration
	Datagrams        Datagrams

	TCPCheck *HealthCheck // of an upstream that has no UDP listener; nil = none
	UDPCheck *HealthCheck // of one that has; nil = none
	NoCheck  string       // why there is no check and what to write for one; "" if there is one
	OnState  OnState      // only the fates

	// Keepalive is how long a healthy session of the protocol may be silent
	// because of its own heartbeats; 0 = for ever.
	Keepalive time.Duration
}

// Profiles lists the profiles.
func Profiles() []Profile {
	return []Profile{
		ProfileGeneric, ProfilePostgres, ProfileMySQL, ProfileRedis, ProfileAMQP, ProfileMQTT, ProfileNATS,
		ProfileKafka, ProfileHTTP, ProfileDNS, ProfileSyslog,
	}
}

// Defaults returns what the profile sets. What is not in this table is as
// without a profile.
//
//	           idle_timeout  check                  sessions of a peer that is unhealthy or standby
//	generic    10m           a TCP connect          run on
//	postgres   off           SSLRequest             are closed
//	mysql      off           none without a login   are closed
//	redis      off           PING                   are closed
//	amqp       off           none without a login   are closed
//	mqtt       off           CONNECT                are closed
//	nats       off           INFO, PING             are closed
//	kafka      15m           ApiVersions            are closed
//	http       10m           GET / below 500        are closed
//	dns        30s, UDP 5s   the root's servers     run on (UDP clients go elsewhere)
//	syslog     UDP only      none                   (UDP clients go elsewhere)
//
// Why: a database's session says nothing while a query runs or a pool keeps it,
// for hours; whether its other end still lives is what dead_peer_timeout finds
// out. Brokers have heartbeats of their own, which the client may have switched
// off. A Kafka broker ends idle connections after 10 min
// (connections.max.idle.ms), and shall be the one who does. An HTTP server ends
// its idle connections within a minute or two, and a request rarely takes ten.
// A DNS client over TCP is expected to be silent for seconds (RFC 7766, section
// 6.2.3; BIND waits 30 s), and asks anew after 5 s over UDP (resolv.conf(5)).
//
// A session that stays on a server that was found dead, or is the primary no
// more, hangs or writes to the wrong place: it is closed, and the client comes
// back to the right one. A replica that lags is still right for what it is
// doing. Sessions of a peer that the operator or discovery took away end in
// their own time, within worker.shutdown_timeout. Of a protocol that is not
// known none of this can be said.
//
// Checks ask for nothing that needs a login. A web server's first page may well
// be missing or need one, so that only a status of 500 or more is a failure.
func (p Profile) Defaults() ProfileDefaults {
	base := NewListener("")
	d := ProfileDefaults{
		TCP:              true,
		ConnectTimeout:   base.ConnectTimeout,
		IdleTimeout:      base.IdleTimeout,
		HalfCloseTimeout: base.HalfCloseTimeout,
		DeadPeerTimeout:  base.DeadPeerTimeout,
		Datagrams:        base.UDP,
	}
	check := func(kind CheckKind) *HealthCheck {
		h := NewHealthCheck(kind)
		return &h
	}
	stateful := OnState{Unhealthy: CloseFate, Standby: CloseFate, Lagging: Keep, Drained: DrainFate, Removed: DrainFate}
	switch p {
	case ProfileGeneric:
		d.UDP = true
		d.TCPCheck = check(CheckTCP)
	case ProfilePostgres:
		d.IdleTimeout, d.OnState = Off, stateful
		d.TCPCheck = check(CheckPostgres)
	case ProfileMySQL:
		d.IdleTimeout, d.OnState = Off, stateful
		d.NoCheck = `MySQL counts connects without a login as errors and blocks the host after some. Write health_check "mysql" { user = "weir" } in the upstream block`
	case ProfileRedis:
		d.IdleTimeout, d.OnState = Off, stateful
		d.TCPCheck = check(CheckRedis)
	case ProfileAMQP:
		d.IdleTimeout, d.OnState, d.Keepalive = Off, stateful, time.Minute // RabbitMQ's heartbeat
		d.NoCheck = `RabbitMQ lets guest in over loopback only. Write health_check "amqp" { } with user and password in the upstream block`
	case ProfileMQTT:
		d.IdleTimeout, d.OnState, d.Keepalive = Off, stateful, time.Minute // what clients ask for as a rule
		d.TCPCheck = check(CheckMQTT)
	case ProfileNATS:
		d.IdleTimeout, d.OnState, d.Keepalive = Off, stateful, 2*time.Minute // ping_interval of the server
		d.TCPCheck = check(CheckNATS)
	case ProfileKafka:
		d.IdleTimeout, d.OnState, d.Keepalive = 15*time.Minute, stateful, 10*time.Minute
		d.TCPCheck = check(CheckKafka)
	case ProfileHTTP:
		d.OnState = stateful
		d.TCPCheck = check(CheckHTTP)
		d.TCPCheck.Status = []StatusRange{{200, 499}}
	case ProfileDNS:
		d.UDP = true
		d.IdleTimeout, d.HalfCloseTimeout = 30*time.Second, 10*time.Second
		d.Datagrams.IdleTimeout, d.Datagrams.Responses = 5*time.Second, 1
		d.TCPCheck, d.UDPCheck = check(CheckSendExpect), check(CheckUDP)
		d.TCPCheck.Steps = []Step{{Send: append([]byte{0, byte(len(rootServersQuery))}, rootServersQuery...)}, {Expect: rootServersQuery[:2]}}
		d.UDPCheck.Steps = []Step{{Send: rootServersQuery}, {Expect: rootServersQuery[:2]}}
	case ProfileSyslog:
		d.TCP, d.UDP = false, true
		d.Datagrams.Responses = NoResponses
		d.NoCheck = `a syslog server answers nothing. Write a health_check for something else on that machine, with its port, in the upstream block`
	}
	return d
}

// rootServersQuery asks a DNS server for the root's name servers, which each
// has at hand or refuses to tell (RFC 1035, section 4.1): any answer with its
// ID shows that somebody is at work.
var rootServersQuery = []byte{
	0x77, 0x65, // ID
	0x01, 0x00, // a query, recursion desired
	0, 1, 0, 0, 0, 0, 0, 0, // one question
	0, 0, 2, 0, 1, // ".", NS, IN
}
