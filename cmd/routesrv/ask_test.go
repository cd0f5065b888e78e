package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestCommandsShowClientCertificates: diff and match reach servers that require a client certificate, as with
// components/mtls. Without one they report what is missing.
func TestCommandsShowClientCertificates(t *testing.T) {
	var ours []byte // the certificate of the server, which the clients show as well
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !bytes.Equal(r.TLS.PeerCertificates[0].Raw, ours):
			http.Error(w, "not the certificate of the flags", http.StatusForbidden)
		default:
			fmt.Fprint(w, tableA)
		}
	}))
	s.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // it logs failed handshakes
	s.StartTLS()
	defer s.Close()
	ours = s.Certificate().Raw
	key, err := x509.MarshalPKCS8PrivateKey(s.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	clientCert := tempFile(t, "client.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ours})))
	clientKey := tempFile(t, "client.key", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})))
	file := tempFile(t, "a.eskip", tableA)
	all := []string{"--tls", "ca=" + clientCert + ",cert=" + clientCert + ",key=" + clientKey}
	for _, c := range []struct {
		args   []string
		status int
		want   string
	}{
		{append([]string{"diff", s.URL + "/routes", file}, all...), 0, "same: "},
		{append([]string{"match", "https://nowhere.example.org/", s.URL + "/routes"}, all...), -1, "table"},
		{[]string{"diff", s.URL + "/routes", file}, 2, "certificate"},
		{[]string{"diff", s.URL + "/routes", file, "--tls=ca=" + clientCert}, 2, "certificate required"},
		{[]string{"diff", s.URL + "/routes", file, "--tls=cert=" + clientCert}, 2, "set both cert and key"},
		{[]string{"diff", s.URL + "/routes", file, "--tls=ca=/nonexistent"}, 2, "open /nonexistent"},
	} {
		r := runWith(t, "", c.args...)
		if c.status >= 0 && r.status != c.status || c.status < 0 && r.status == 2 || !strings.Contains(r.out+r.err, c.want) {
			t.Errorf("%q: status %d, want %d and %q in\n%s%s", c.args, r.status, c.status, c.want, r.out, r.err)
		}
	}
}

// TestCommandsUnderstandTheServer: the commands that query a server can read what a route server answers.
func TestCommandsUnderstandTheServer(t *testing.T) {
	server := start(t, "", "--manifests="+shop)
	server.ready()
	p := server.support
	for _, c := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"status", p}, 0, "   healthy   "},
		{[]string{"status", "-ojson", p}, 0, `"version":`},
		{[]string{"problems", p}, 0, "no problems"},
		{[]string{"held", p}, 0, "nothing is held"},
		{[]string{"accept", p, strings.Repeat("0", 64), "--why=b", "--yes"}, 2, "asks the process in its own pod, not a URL"},
		{[]string{"accept", strings.Repeat("0", 64), "--why=b", "--yes", "--state-dir=" + t.TempDir()}, 2, "no process listens on the control socket"},
		{[]string{"clients", p}, -1, ""},
	} {
		r := runWith(t, "", c.args...)
		if c.status >= 0 && r.status != c.status || !strings.Contains(r.out+r.err, c.want) {
			t.Errorf("%q: status %d, want %d and %q in\n%s%s", c.args, r.status, c.status, c.want, r.out, r.err)
		}
	}
	if r := runWith(t, "", "completion", "bash"); r.status != 0 || !strings.Contains(r.out, "__start_routesrv routesrv") {
		t.Errorf("completion: %+v", r)
	}
	if r := runWith(t, "", "__complete", "diff", "--tl"); !strings.HasPrefix(r.out, "--tls\t") || !strings.HasSuffix(r.out, "\n:4\n") {
		t.Errorf("completion of the flags of diff: %q", r.out)
	}
}
