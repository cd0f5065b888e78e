package options_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/routesrv/routesrv/app/options"
	"github.com/routesrv/routesrv/compile"
	"github.com/routesrv/routesrv/guard"
)

// FuzzArguments: no arguments and no environment make the parser panic; it returns either a configuration or an error; and the
// compiler and the guard accept what it accepts. One line is one argument.
func FuzzArguments(f *testing.F) {
	f.Add("-kubernetes\n-address=:1\n--manifests\na", "ROUTESRV_FLAG_ADDRESS=:2\nPATH=/")
	f.Add("-edit-route\n/a/b/\n-whitelisted-healthcheck-cidr=::/0,\n---x\n-\n--\nx", "")
	f.Add("-kubernetes\n--guard=max-bytes=5e3,hold=1h\n-source-poll-timeout=9999999999999999999", "ROUTESRV_FLAG_=x\n=")
	for name, s := range samples() {
		f.Add("-kubernetes\n--"+name+"="+s.value, options.EnvName(name)+"="+s.value)
	}
	f.Fuzz(func(t *testing.T, args, environ string) {
		check(t, strings.Split(args, "\n"), options.Env{Environ: strings.Split(environ, "\n"), ReadFile: files(nil)})
	})
}

// FuzzFile does the same for the configuration file.
func FuzzFile(f *testing.F) {
	f.Add("address: :1\nedit-route: [/a/b/, &x \"#c#d#\"]\nclone-route: *x\n")
	f.Add("? [a]\n: {b: c}\n---\n- x\n")
	f.Add("kubernetes-allowed-external-name: {a: [b], c: *d}\n<<: &e {}\n")
	for name, s := range samples() {
		f.Add(name + ": " + s.value)
	}
	f.Fuzz(func(t *testing.T, content string) {
		read := func(string) ([]byte, error) { return []byte(content), nil }
		check(t, []string{"-kubernetes", "-config-file=f"}, options.Env{ReadFile: read})
	})
}

func check(t *testing.T, args []string, env options.Env) {
	t.Helper()
	c, warnings, err := parseArgs(args, env)
	if (c == nil) != (err != nil) {
		t.Fatalf("configuration %v and error %v", c, err)
	}
	for _, w := range warnings {
		if strings.ContainsAny(w.Error(), "\n\x1b") {
			t.Errorf("the warning %q can do harm to a log", w)
		}
	}
	if err != nil {
		return
	}
	if _, err := compile.New(c.Server.Compile); err != nil {
		t.Errorf("the compiler refuses what was accepted: %v", err)
	}
	if _, err := guard.New(c.Server.Guard); err != nil {
		t.Errorf("the guard refuses what was accepted: %v", err)
	}
	if c.Source.Kubernetes == (len(c.Source.Manifests) > 0) {
		t.Errorf("source %+v: want one of Kubernetes and Manifests", c.Source)
	}
	if c.Server.Address == "" || c.Server.Interval <= 0 || c.Server.MaxBackoff < c.Server.Interval || c.Server.ShutdownTimeout <= 0 {
		t.Errorf("%+v is outside of the limits", c)
	}
	for _, one := range c.Peers {
		if u, err := url.Parse(one); err != nil || u.Hostname() == "" || u.Port() == "" {
			t.Errorf("peers %q: error %v", one, err)
		}
	}
	if c.Server.TLS.Enable && (len(c.Server.TLS.CertFiles) == 0 || len(c.Server.TLS.CertFiles) != len(c.Server.TLS.KeyFiles)) {
		t.Errorf("TLS %+v without a certificate", c.Server.TLS)
	}
}
