package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"runtime/metrics"
	"slices"
	"strconv"
	"time"

	"github.com/weirlb/weir/conf"
	"github.com/weirlb/weir/stream"
	"github.com/weirlb/weir/stream/balance"
	"github.com/weirlb/weir/stream/decisions"
)

// defaultLimit is how many sessions are listed if nobody says how many.
const defaultLimit = 100

// answer answers a request with something to be written as JSON.
type answer func(http.ResponseWriter, *http.Request) (any, error)

func (s *Server) routes() {
	for path, methods := range map[string]map[string]answer{
		"/v1/status":                          {"GET": s.status},
		"/v1/runtime":                         {"GET": s.runtime},
		"/v1/upstreams":                       {"GET": s.upstreams},
		"/v1/peers":                           {"GET": s.peers},
		"/v1/peers/{upstream}/{peer}":         {"POST": s.setPeer},
		"/v1/peers/{upstream}/{peer}/history": {"GET": s.history},
		"/v1/discovery":                       {"GET": s.discovery},
		"/v1/sessions":                        {"GET": s.sessions},
		"/v1/sessions/{id}":                   {"GET": s.explainSession, "DELETE": s.closeSession},
		"/v1/explain":                         {"GET": s.forecast},
		"/v1/record":                          {"POST": s.record},
		"/v1/reload":                          {"POST": s.reload},
		"/v1/upgrade":                         {"POST": s.upgrade},
		"/v1/diff":                            {"GET": s.diff, "POST": s.diffWith},
		"/":                                   {},
	} {
		s.mux.Handle(path, byMethod(methods))
	}
}

// byMethod answers what the methods say, and explains itself to others.
func byMethod(methods map[string]answer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f := methods[r.Method]
		switch {
		case len(methods) == 0:
			writeError(w, errorf(http.StatusNotFound, "there is no %s here: the paths begin with /v1/, see the documentation of stream/admin", r.URL.Path))
			return
		case f == nil:
			for m := range methods {
				w.Header().Add("Allow", m)
			}
			writeError(w, errorf(http.StatusMethodNotAllowed, "%s does not take %s", r.URL.Path, r.Method))
			return
		}
		v, err := f(w, r)
		if err != nil {
			writeError(w, err)
			return
		}
		write(w, http.StatusOK, v)
	})
}

func write(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // nobody is left to be told
}

func writeError(w http.ResponseWriter, err error) {
	out := asError(err)
	if out.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	write(w, out.Status, out)
}

// asError gives an error its status.
func asError(err error) *Error {
	var own *Error
	var request *stream.RequestError
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &request):
		status := map[stream.RequestKind]int{stream.NotFound: http.StatusNotFound, stream.Ambiguous: http.StatusConflict, stream.Invalid: http.StatusBadRequest, stream.Busy: http.StatusConflict}[request.Kind]
		return errorf(status, "%s", request.Text)
	case errors.As(err, &tooLarge):
		return errorf(http.StatusRequestEntityTooLarge, "the request is larger than %d bytes", tooLarge.Limit)
	}
	return errorf(http.StatusInternalServerError, "%s", err)
}

// read decodes the body of a request. It takes nothing that it does not know: a
// word that is ignored would be an order not carried out.
func read(r *http.Request, into any) error {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return errorf(http.StatusUnsupportedMediaType, "send JSON, with Content-Type: application/json")
	}
	return decode(r.Body, into)
}

func decode(from io.Reader, into any) error {
	d := json.NewDecoder(from)
	d.DisallowUnknownFields()
	err := d.Decode(into)
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return err
	case errors.Is(err, io.EOF):
		return nil // an order may be empty
	case err != nil:
		return errorf(http.StatusBadRequest, "bad request: %s", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return errorf(http.StatusBadRequest, "bad request: there is something behind the JSON object")
	}
	return nil
}

func (s *Server) status(http.ResponseWriter, *http.Request) (any, error) {
	r := s.opt.Server.Read()
	states, err := s.opt.Server.UpstreamStates("")
	if err != nil {
		return nil, err
	}
	out := &Status{
		Version:       s.opt.Version,
		PID:           os.Getpid(),
		Config:        s.opt.Config,
		Started:       s.started,
		UptimeSeconds: time.Since(s.started).Seconds(),
		Reloaded:      s.reloaded.Load(),
		Ready:         r.NotReady == nil,
		Workers:       len(r.Workers),
		Leaving:       r.Leaving,
		Ended:         map[string]int64{},
		Listeners:     []Listening{},
		Upstreams:     []UpstreamSums{},
		Recording:     s.recording(),
		Runtime:       readRuntime(),
	}
	if r.NotReady != nil {
		out.NotReady = r.NotReady.Error()
	}
	out.count(r)
	for _, b := range s.opt.Server.Listening() {
		out.Listeners = append(out.Listeners, listening(&b, r))
	}
	for i := range states {
		out.Upstreams = append(out.Upstreams, sums(&states[i]))
	}
	return out, nil
}

func (s *Server) runtime(http.ResponseWriter, *http.Request) (any, error) {
	return readRuntime(), nil
}

// readRuntime does not stop the workers for it, as runtime.ReadMemStats would.
func readRuntime() Runtime {
	samples := []metrics.Sample{{Name: "/gc/cycles/total:gc-cycles"}, {Name: "/gc/heap/allocs:objects"}, {Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(samples)
	return Runtime{
		GCCycles:         samples[0].Value.Uint64(),
		AllocatedObjects: samples[1].Value.Uint64(),
		AllocatedBytes:   samples[2].Value.Uint64(),
	}
}

func (s *Server) recording() Recording {
	on, until := s.opt.Server.Recording()
	if until.IsZero() {
		return Recording{On: on}
	}
	return Recording{On: on, Until: &until}
}

func (s *Server) upstreams(http.ResponseWriter, *http.Request) (any, error) {
	states, err := s.opt.Server.UpstreamStates("")
	out := &Upstreams{Upstreams: []Upstream{}}
	for i := range states {
		u := &states[i]
		out.Upstreams = append(out.Upstreams, Upstream{u.Name, u.Method, orEmpty(u.Listeners), group(&u.State), load(&u.Load), peersOf(u)})
	}
	return out, err
}

func (s *Server) peers(_ http.ResponseWriter, r *http.Request) (any, error) {
	q, err := query(r, "upstream")
	if err != nil {
		return nil, err
	}
	states, err := s.opt.Server.UpstreamStates(q.Get("upstream"))
	if err != nil {
		return nil, err
	}
	out := &Peers{Peers: []Peer{}, Groups: map[string]Group{}, Sources: map[string][]Source{}}
	for _, x := range s.opt.Server.Sources() {
		if name := q.Get("upstream"); name == "" || name == x.Upstream {
			out.Sources[x.Upstream] = append(out.Sources[x.Upstream], source(&x))
		}
	}
	for i := range states {
		out.Groups[states[i].Name] = group(&states[i].State)
		out.Peers = append(out.Peers, peersOf(&states[i])...)
	}
	return out, nil
}

func (s *Server) history(_ http.ResponseWriter, r *http.Request) (any, error) {
	upstream := r.PathValue("upstream")
	p, latest, total, err := s.opt.Server.PeerHistory(upstream, r.PathValue("peer"))
	if err != nil {
		return nil, err
	}
	out := &PeerHistory{Upstream: upstream, Peer: p.Name, Address: p.String(), Transitions: []Transition{}, Total: total}
	for i := range latest {
		out.Transitions = append(out.Transitions, transition(&latest[i]))
	}
	return out, nil
}

func (s *Server) discovery(http.ResponseWriter, *http.Request) (any, error) {
	out := &Discovery{Sources: []Source{}}
	all := s.opt.Server.Sources()
	for i := range all {
		out.Sources = append(out.Sources, source(&all[i]))
	}
	return out, nil
}

// query returns a request's parameters, of which it takes only those.
func query(r *http.Request, known ...string) (url.Values, error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, errorf(http.StatusBadRequest, "bad request: %s", err)
	}
	for name := range q {
		if !slices.Contains(known, name) {
			hint := ""
			if near := conf.Nearest(name, known); near != "" {
				hint = fmt.Sprintf("; did you mean %q?", near)
			}
			return nil, errorf(http.StatusBadRequest, "%s has no parameter %q%s", r.URL.Path, name, hint)
		}
	}
	return q, nil
}

func (s *Server) setPeer(_ http.ResponseWriter, r *http.Request) (any, error) {
	var order PeerOrder
	if err := read(r, &order); err != nil {
		return nil, err
	}
	upstream, name := r.PathValue("upstream"), r.PathValue("peer")
	var err error
	switch {
	case (order.Admin == "") == (order.Weight == nil):
		return nil, errorf(http.StatusBadRequest, `say what to do, {"admin": "up"}, "drain" or "down", or {"weight": 10}`)
	case order.Weight != nil:
		err = s.opt.Server.SetWeight(upstream, name, *order.Weight)
	default:
		admin, ok := map[string]balance.Admin{"up": balance.Up, "drain": balance.Drain, "down": balance.Down}[order.Admin]
		if !ok {
			return nil, errorf(http.StatusBadRequest, "admin can't be %q: it is up, drain or down", order.Admin)
		}
		err = s.opt.Server.SetAdmin(upstream, name, admin)
	}
	if err != nil {
		return nil, err
	}
	state, err := s.opt.Server.PeerState(upstream, name)
	if err != nil {
		return nil, err
	}
	out := peer(upstream, &state)
	return &out, nil
}

func (s *Server) sessions(_ http.ResponseWriter, r *http.Request) (any, error) {
	q, err := query(r, "listener", "peer", "older", "limit", "ended")
	if err != nil {
		return nil, err
	}
	f := stream.Filter{Listener: q.Get("listener"), Peer: q.Get("peer"), Limit: defaultLimit}
	if text := q.Get("older"); text != "" {
		if f.Older, err = conf.ParseDuration(text); err != nil {
			return nil, errorf(http.StatusBadRequest, "older: %s", err)
		}
	}
	if text := q.Get("limit"); text != "" {
		if f.Limit, err = strconv.Atoi(text); err != nil || f.Limit < 0 {
			return nil, errorf(http.StatusBadRequest, "limit takes a number, 0 for no limit, not %q", text)
		}
	}
	switch q.Get("ended") {
	case "", "false":
	case "true":
		return s.ended(r, &f)
	default:
		return nil, errorf(http.StatusBadRequest, "ended is true or false")
	}
	l, err := s.opt.Server.ListSessions(r.Context(), f)
	if err != nil {
		return nil, err
	}
	out := &Sessions{Sessions: make([]Session, 0, len(l.Sessions)), Total: l.Total}
	for i := range l.Sessions {
		out.Sessions = append(out.Sessions, running(&l.Sessions[i], l.Now))
	}
	return out, nil
}

// ended lists the sessions that ended last.
func (s *Server) ended(r *http.Request, f *stream.Filter) (any, error) {
	if f.Peer != "" || f.Older != 0 {
		return nil, errorf(http.StatusBadRequest, "sessions that have ended can be chosen by listener only")
	}
	all := s.opt.Server.LatestSessions(r.Context(), f.Listener, f.Limit)
	out := &Sessions{Sessions: make([]Session, 0, len(all)), Total: len(all)}
	for i := range all {
		out.Sessions = append(out.Sessions, finished(&all[i]))
	}
	return out, r.Context().Err()
}

func sessionID(r *http.Request) (uint64, error) {
	id, err := strconv.ParseUint(r.PathValue("id"), 10, 64)
	if err != nil {
		return 0, errorf(http.StatusBadRequest, "%q is not the number of a session", r.PathValue("id"))
	}
	return id, nil
}

func (s *Server) closeSession(_ http.ResponseWriter, r *http.Request) (any, error) {
	id, err := sessionID(r)
	if err != nil {
		return nil, err
	}
	if err := s.opt.Server.CloseSession(r.Context(), id); err != nil {
		return nil, err
	}
	return &Done{true}, nil
}

func (s *Server) explainSession(_ http.ResponseWriter, r *http.Request) (any, error) {
	id, err := sessionID(r)
	if err != nil {
		return nil, err
	}
	e, err := s.opt.Server.Explain(r.Context(), id)
	if err != nil {
		return nil, err
	}
	return explained(e), nil
}

func (s *Server) forecast(_ http.ResponseWriter, r *http.Request) (any, error) {
	q, err := query(r, "upstream", "client", "listener")
	if err != nil {
		return nil, err
	}
	if q.Get("upstream") == "" {
		return nil, errorf(http.StatusBadRequest, "name an upstream: /v1/explain?upstream=NAME")
	}
	question := stream.Question{Upstream: q.Get("upstream"), Listener: q.Get("listener")}
	if question.Client, err = parseClient(q.Get("client")); err != nil {
		return nil, err
	}
	d, now, err := s.opt.Server.Forecast(question)
	if err != nil {
		return nil, err
	}
	out := &Forecast{Upstream: d.Upstream, Client: q.Get("client"), Decision: decision(&decisions.Record{At: now, Decision: d})}
	if d.Peer != nil {
		out.Peer, out.Address = d.Peer.Name, d.Peer.String()
	}
	return out, nil
}

// parseClient reads an address with or without a port.
func parseClient(text string) (netip.AddrPort, error) {
	if text == "" {
		return netip.AddrPort{}, nil
	}
	if ip, err := netip.ParseAddr(text); err == nil {
		return netip.AddrPortFrom(ip, 0), nil
	}
	a, err := netip.ParseAddrPort(text)
	if err != nil {
		return a, errorf(http.StatusBadRequest, "client takes an IP address, such as 10.0.0.7 or 10.0.0.7:4711, not %q", text)
	}
	return a, nil
}

func (s *Server) record(_ http.ResponseWriter, r *http.Request) (any, error) {
	var order RecordOrder
	if err := read(r, &order); err != nil {
		return nil, err
	}
	switch order.Record {
	case "on":
		s.opt.Server.Record(true, 0)
	case "off":
		s.opt.Server.Record(false, 0)
	default:
		d, err := conf.ParseDuration(order.Record)
		if err != nil {
			return nil, errorf(http.StatusBadRequest, "record takes on, off or a duration such as 10m, not %q", order.Record)
		}
		s.opt.Server.Record(true, d)
	}
	out := s.recording()
	return &out, nil
}

func (s *Server) reload(w http.ResponseWriter, r *http.Request) (any, error) {
	var order ReloadOrder
	if err := read(r, &order); err != nil {
		return nil, err
	}
	return s.askDaemon(w, r, order)
}

func (s *Server) diff(w http.ResponseWriter, r *http.Request) (any, error) {
	return s.askDaemon(w, r, ReloadOrder{DryRun: true})
}

func (s *Server) askDaemon(w http.ResponseWriter, r *http.Request, order ReloadOrder) (any, error) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(reloadTimeout)) // else it is cut off early
	return s.opt.Daemon.Reload(r.Context(), order)
}

func (s *Server) upgrade(w http.ResponseWriter, r *http.Request) (any, error) {
	var order UpgradeOrder
	if err := read(r, &order); err != nil {
		return nil, err
	}
	if local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); order.Binary != "" && (!ok || local.Network() != "unix") {
		return nil, errorf(http.StatusForbidden, "a program can be named over a unix socket only: whoever can use that may run programs as weir's user anyway")
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(reloadTimeout))
	return s.opt.Daemon.Upgrade(r.Context(), order)
}

// Reloaded notes that the configuration is a new one.
func (s *Server) Reloaded() {
	now := time.Now()
	s.reloaded.Store(&now)
}

// diffWith tells what the configuration in the request would change. It comes
// from a command that has read and checked it, so that no file is opened here for
// whoever has a connection.
func (s *Server) diffWith(w http.ResponseWriter, r *http.Request) (out any, err error) {
	cfg := new(conf.Config)
	if err := read(r, cfg); err != nil {
		return nil, err
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(reloadTimeout))
	defer func() {
		// Nobody has checked what does not come from such a command.
		if p := recover(); p != nil {
			out, err = nil, errorf(http.StatusBadRequest, "that is no configuration: %v", p)
		}
	}()
	change, err := s.opt.Server.Diff(r.Context(), cfg)
	if err != nil {
		return nil, errorf(http.StatusUnprocessableEntity, "%s", err)
	}
	return NewReload(change, true, ""), nil
}
