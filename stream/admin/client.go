package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"syscall"
	"time"

	"github.com/weirlb/weir/conf"
)

// Client asks a control API.
type Client struct {
	addr  conf.Address
	token string
	http  *http.Client
}

// clientTimeout bounds a request: a reload resolves names first.
const clientTimeout = reloadTimeout + 10*time.Second

// NewClient returns a client of the control API at an address. The token may be
// empty.
func NewClient(addr conf.Address, token string) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		d := net.Dialer{Timeout: 5 * time.Second}
		if addr.IsUnix() {
			return d.DialContext(ctx, "unix", addr.Path)
		}
		return d.DialContext(ctx, "tcp", addr.String())
	}
	return &Client{addr: addr, token: token, http: &http.Client{
		Timeout:   clientTimeout,
		Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true},
	}}
}

// Addr returns where the client asks.
func (c *Client) Addr() conf.Address { return c.addr }

// Do sends a request with a body, which may be nil, and decodes the answer into
// out. An answer that says no is an *Error.
func (c *Client) Do(ctx context.Context, method, path string, body, out any) error {
	var text io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return err
		}
		text = bytes.NewReader(b)
	}
	host := c.addr.String()
	if c.addr.IsUnix() {
		host = "localhost"
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://"+host+path, text)
	if err != nil {
		return err
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	answer, err := c.http.Do(r)
	if err != nil {
		return c.unreachable(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return c.refusal(answer)
	}
	if err := json.NewDecoder(answer.Body).Decode(out); err != nil {
		return fmt.Errorf("read the answer of %s: %w", c.addr, err)
	}
	return nil
}

// refusal reads an answer that says no.
func (c *Client) refusal(answer *http.Response) error {
	e := &Error{Status: answer.StatusCode}
	if json.NewDecoder(io.LimitReader(answer.Body, maxConfig)).Decode(e) != nil || e.Message == "" {
		return fmt.Errorf("%s answers %q: is that weir's control API?", c.addr, answer.Status)
	}
	if e.Status == http.StatusUnauthorized {
		e.Message = fmt.Sprintf("%s: %s", c.addr, e.Message)
	}
	return e
}

// unreachable says why nobody has answered, and what to do.
func (c *Client) unreachable(err error) error {
	switch {
	case errors.Is(err, context.Canceled):
		return context.Canceled
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("nothing listens on %s: there is no such socket; does weir run, with this address in its admin block?", c.addr)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("nothing listens on %s: does weir run?", c.addr)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("this user may not use %s: be its owner (sudo), or in the group of admin { group }", c.addr)
	}
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return fmt.Errorf("%s does not answer", c.addr)
	}
	var request *url.Error
	if errors.As(err, &request) {
		err = request.Err
	}
	return fmt.Errorf("ask %s: %w", c.addr, cause(err))
}

// Status asks for the process's state.
func (c *Client) Status(ctx context.Context) (*Status, error) {
	out := new(Status)
	return out, c.Do(ctx, "GET", "/v1/status", nil, out)
}

// Runtime asks for the part of the status that is the Go runtime's.
func (c *Client) Runtime(ctx context.Context) (*Runtime, error) {
	out := new(Runtime)
	return out, c.Do(ctx, "GET", "/v1/runtime", nil, out)
}

// Upstreams asks for all upstreams with their peers.
func (c *Client) Upstreams(ctx context.Context) (*Upstreams, error) {
	out := new(Upstreams)
	return out, c.Do(ctx, "GET", "/v1/upstreams", nil, out)
}

// PeerHistory asks for the latest transitions of a peer.
func (c *Client) PeerHistory(ctx context.Context, upstream, peer string) (*PeerHistory, error) {
	out := new(PeerHistory)
	return out, c.Do(ctx, "GET", "/v1/peers/"+url.PathEscape(upstream)+"/"+url.PathEscape(peer)+"/history", nil, out)
}

// Discovery asks for the sources of discovered servers.
func (c *Client) Discovery(ctx context.Context) (*Discovery, error) {
	out := new(Discovery)
	return out, c.Do(ctx, "GET", "/v1/discovery", nil, out)
}

// Peers asks for the peers of an upstream, or of all if it is "".
func (c *Client) Peers(ctx context.Context, upstream string) (*Peers, error) {
	q := url.Values{}
	set(q, "upstream", upstream)
	out := new(Peers)
	return out, c.Do(ctx, "GET", "/v1/peers?"+q.Encode(), nil, out)
}

// SetPeer changes a peer and returns it as it is then.
func (c *Client) SetPeer(ctx context.Context, upstream, peer string, order PeerOrder) (*Peer, error) {
	out := new(Peer)
	return out, c.Do(ctx, "POST", "/v1/peers/"+url.PathEscape(upstream)+"/"+url.PathEscape(peer), order, out)
}

// SessionQuery chooses sessions.
type SessionQuery struct {
	Listener string
	Peer     string
	Older    string // as a configuration writes durations; "" = of any age
	Limit    int    // 0 = no limit
	Ended    bool   // those that ended last
}

// Sessions asks for sessions.
func (c *Client) Sessions(ctx context.Context, s SessionQuery) (*Sessions, error) {
	q := url.Values{"limit": {strconv.Itoa(s.Limit)}}
	set(q, "listener", s.Listener)
	set(q, "peer", s.Peer)
	set(q, "older", s.Older)
	if s.Ended {
		q.Set("ended", "true")
	}
	out := new(Sessions)
	return out, c.Do(ctx, "GET", "/v1/sessions?"+q.Encode(), nil, out)
}

// ExplainSession asks for one session.
func (c *Client) ExplainSession(ctx context.Context, id uint64) (*SessionExplanation, error) {
	out := new(SessionExplanation)
	return out, c.Do(ctx, "GET", fmt.Sprintf("/v1/sessions/%d", id), nil, out)
}

// CloseSession ends a session.
func (c *Client) CloseSession(ctx context.Context, id uint64) error {
	return c.Do(ctx, "DELETE", fmt.Sprintf("/v1/sessions/%d", id), nil, new(Done))
}

// Forecast asks what the next session of an upstream would get. client and
// listener may be "".
func (c *Client) Forecast(ctx context.Context, upstream, client, listener string) (*Forecast, error) {
	q := url.Values{"upstream": {upstream}}
	set(q, "client", client)
	set(q, "listener", listener)
	out := new(Forecast)
	return out, c.Do(ctx, "GET", "/v1/explain?"+q.Encode(), nil, out)
}

// Record has decisions remembered: "on", "off", or for a duration.
func (c *Client) Record(ctx context.Context, record string) (*Recording, error) {
	out := new(Recording)
	return out, c.Do(ctx, "POST", "/v1/record", RecordOrder{record}, out)
}

// Reload has weir read its configuration again.
func (c *Client) Reload(ctx context.Context, order ReloadOrder) (*Reload, error) {
	out := new(Reload)
	return out, c.Do(ctx, "POST", "/v1/reload", order, out)
}

// Upgrade has weir be replaced by a new process.
func (c *Client) Upgrade(ctx context.Context, order UpgradeOrder) (*Upgrade, error) {
	out := new(Upgrade)
	return out, c.Do(ctx, "POST", "/v1/upgrade", order, out)
}

// Diff asks what a configuration would change.
func (c *Client) Diff(ctx context.Context, cfg *conf.Config) (*Reload, error) {
	out := new(Reload)
	return out, c.Do(ctx, "POST", "/v1/diff", cfg, out)
}

func set(q url.Values, name, value string) {
	if value != "" {
		q.Set(name, value)
	}
}
