package hclfile

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/weirlb/weir/conf"
)

var checkTLSBlock = &block{
	name:   "tls",
	header: "tls {",
	single: true,
	attrs: []attribute{
		{"server_name", kindString, `"db.example"`},
		{"alpn", kindList, `["h2", "http/1.1"]`},
		{"ca_file", kindString, `"/etc/weir/ca.pem"`},
		{"cert_file", kindString, `"/etc/weir/check.pem"`},
		{"key_file", kindString, `"/etc/weir/check.key"`},
		{"verify", kindBool, `true`},
	},
}

// readCheckTLS reads the tls block of a health check. The files are looked at
// here, so that a wrong one is found by weir check; the check reads them again.
func readCheckTLS(b *body, h *conf.HealthCheck) {
	t := b.one(checkTLSBlock)
	if t == nil {
		return
	}
	o := conf.NewCheckTLS()
	h.TLS = o
	t.boolean("verify", &o.Verify)
	t.filled("server_name", &o.ServerName)
	if o.ServerName != "" {
		if err := conf.CheckHost(o.ServerName); err != nil {
			t.d.errorf(t.valueRange("server_name"), "bad server_name", "%s.", sentence(err))
		}
	}
	t.alpn(&o.ALPN)
	if ca, at, ok := t.content("ca_file", &o.CAFile); ok && !x509.NewCertPool().AppendCertsFromPEM(ca) {
		t.d.errorf(at, "ca_file has no certificate", "It needs at least one in PEM: a part that begins with -----BEGIN CERTIFICATE-----.")
	}
	t.keyPair(o)
}

// alpn reads names of protocols (RFC 7301: 1 to 255 bytes each).
func (b *body) alpn(into *[]string) {
	list, at, ok := b.list("alpn")
	if ok && len(list) == 0 {
		b.d.errorf(at, "alpn is empty", "Remove it, or name a protocol: alpn = %s", b.schema.attr("alpn").example)
	}
	for _, it := range list {
		if it.text == "" || len(it.text) > 255 {
			b.d.errorf(it.at, "bad name of a protocol", `Names in alpn have 1 to 255 bytes, such as "h2".`)
			continue
		}
		*into = append(*into, it.text)
	}
}

func (b *body) keyPair(o *conf.CheckTLSOptions) {
	cert, certAt, certOK := b.content("cert_file", &o.CertFile)
	key, _, keyOK := b.content("key_file", &o.KeyFile)
	for _, alone := range []struct{ name, missing string }{{"cert_file", "key_file"}, {"key_file", "cert_file"}} {
		if b.isSet(alone.name) && !b.isSet(alone.missing) && !b.d.incomplete(b) {
			b.d.errorf(b.nameRange(alone.name), fmt.Sprintf("%s without %s", alone.name, alone.missing), "A client shows a certificate and proves that it has the key. Write %s = %s too.", alone.missing, b.schema.attr(alone.missing).example)
		}
	}
	if !certOK || !keyOK {
		return
	}
	if _, err := tls.X509KeyPair(cert, key); err != nil {
		b.d.report(certAt, "cert_file and key_file are no pair", sentence(errors.New(strings.TrimPrefix(err.Error(), "tls: ")))+".", related{b.valueRange("key_file"), "the key is here"})
	}
}

// content reads the file that an attribute names; into gets its absolute path.
func (b *body) content(name string, into *string) ([]byte, hcl.Range, bool) {
	path, at, ok := b.path(name, into)
	if !ok {
		return nil, at, false
	}
	src, err := b.d.read(path)
	if err != nil {
		b.d.errorf(at, name+" can't be read", "%s.", sentence(errors.New(cause(path, err))))
		return nil, at, false
	}
	return src, at, true
}
