package health

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/weirlb/weir/conf"
)

// newHTTP returns a probe that asks once on each connection, over HTTP/1.1: one
// that is kept would go on with an old process of the server, say, that accepts
// no other any more. It takes no redirect: that is an answer like any other.
//
// A whole http.Transport is not needed for that, and would have goroutines of
// its own.
func newHTTP(h *conf.HealthCheck, at *endpoint) (probe, error) {
	req, err := http.NewRequest(h.Method, "http://weir"+h.Path, nil)
	if err != nil {
		return nil, err
	}
	req.Host = h.Host
	if req.Host == "" {
		req.Host = hostHeader(at)
	}
	req.Close = true
	req.Header.Set("User-Agent", "weir")
	return &visit{at: at, talk: func(_ context.Context, c net.Conn) (reading, error) { return askHTTP(h, req, c) }}, nil
}

func hostHeader(at *endpoint) string {
	host := at.host
	if host == "" {
		host = "localhost"
	}
	usual := uint16(80)
	if at.tls != nil {
		usual = 443
	}
	if at.port != 0 && at.port != usual {
		return net.JoinHostPort(host, strconv.Itoa(int(at.port)))
	}
	if strings.Contains(host, ":") {
		return "[" + host + "]"
	}
	return host
}

func askHTTP(h *conf.HealthCheck, req *http.Request, c net.Conn) (reading, error) {
	if err := req.Write(c); err != nil {
		return reading{}, doing("sending the request", err)
	}
	r := bufio.NewReader(io.LimitReader(c, 2*maxBytes)) // header and body
	resp, err := http.ReadResponse(r, req)
	for err == nil && resp.StatusCode < 200 && resp.StatusCode != http.StatusSwitchingProtocols {
		resp, err = http.ReadResponse(r, req) // that was only an interim one
	}
	if err != nil {
		return reading{}, doing("waiting for the response", err)
	}
	status := fmt.Sprintf("status %d", resp.StatusCode)
	if !slices.ContainsFunc(h.Status, func(s conf.StatusRange) bool { return s.From <= resp.StatusCode && resp.StatusCode <= s.To }) {
		return reading{}, fmt.Errorf("%s", status)
	}
	if h.Body == nil {
		return alive(status), nil
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBytes))
	if err != nil {
		return reading{}, doing("reading the body", err)
	}
	if !h.Body.Match(body) {
		return reading{}, fmt.Errorf("%s, but the body does not match %q", status, h.Body)
	}
	return alive(status), nil
}
