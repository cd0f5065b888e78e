package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/routesrv/routesrv/app/program"
)

const shop = "../../examples/shop"

// result is the outcome of one run of the program.
type result struct {
	status   int
	out, err string
}

func runWith(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	var out, errs strings.Builder
	status := run(t.Context(), args, nil, program.Stdio{In: strings.NewReader(stdin), Out: &out, Err: &errs})
	return result{status, out.String(), errs.String()}
}

const brokenGroup = `apiVersion: zalando.org/v1
kind: RouteGroup
metadata: {name: broken, namespace: shop}
spec:
  backends: [{name: a, type: shunt}]
  defaultBackends: [{backendName: a}]
  routes: [{path: /, filters: ["not a filter"]}]
`

func TestExitStatusesAndMessages(t *testing.T) {
	tests := []struct {
		name       string
		stdin      string
		args       []string
		status     int
		out, stdrr string // regular expressions
	}{
		{name: "version", args: []string{"version"}, out: `^routesrv \S+ go1\.\d+`},
		{name: "version flag", args: []string{"--version"}, out: `^routesrv `},
		{
			name: "settings are checked and nothing is started", out: `^configuration is valid\n$`,
			args: []string{"--check-config", "-kubernetes", "-kubernetes-in-cluster", "--state-dir=/nowhere/at/all"},
		},
		{
			name: "forms of flags", args: []string{"--check-config", "-kubernetes", "-address", ":1", "--support-listener=:2", "-edit-route", "-x-/y-", "-kubernetes-healthcheck=false"},
			out: `is valid`,
		},
		{name: "a value is no command", args: []string{"-kubernetes", "-address", "status"}, status: 2, stdrr: `^routesrv: -address: "status": must be HOST:PORT`},
		{name: "a value is no flag", args: []string{"-kubernetes", "-address", "-kubernetes"}, status: 2, stdrr: `^routesrv: -address: "-kubernetes": must be`},
		{
			name: "several unknown flags", args: []string{"-kubernetes", "-adress=:1", "--no-such-flag", "x", "-o"}, status: 2,
			stdrr: `^routesrv: unknown flag -adress: did you mean -address\?\nroutesrv: unknown flag -no-such-flag\nroutesrv: unknown flag -o`,
		},
		{name: "help wins", args: []string{"-no-such-flag", "-address=9", "-h"}, out: `^Reads Ingresses`},
		{name: "help of a command", args: []string{"help", "compile"}, out: `^Prints the table of manifests\.`},
		{name: "a mistyped command", args: []string{"stauts", "http://localhost:9911"}, status: 2, stdrr: `Did you mean this\?\s+status`},
		{
			name: "a check says what is wrong", status: 2, stdrr: `-addres\b`,
			args: []string{"--check-config", "-kubernetes", "-addres=:1"},
		},
		{
			name: "a check has the warnings", out: `is valid`, stdrr: `warning: -normalize-host`,
			args: []string{"--check-config", "-kubernetes", "-normalize-host"},
		},
		{
			name: "the name of the program as first argument", out: `^configuration is valid\n$`,
			args: []string{"routesrv", "--check-config", "-kubernetes"},
		},
		{
			name: "the name of the program after the check", out: `^configuration is valid\n$`,
			args: []string{"--check-config", "routesrv", "-kubernetes"},
		},
		{name: "the name of the program as another argument", args: []string{"-kubernetes", "routesrv"}, status: 2, stdrr: `unknown command "routesrv"`},
		{name: "the name of the program before a subcommand", args: []string{"routesrv", "version"}, out: `^routesrv `},
		{name: "the name of the program twice", args: []string{"routesrv", "routesrv"}, status: 2, stdrr: `routesrv`},
		{name: "a relay is checked", args: []string{"--check-config", "--upstream=http://routesrv"}, out: `is valid`},
		{name: "a URL that is none", args: []string{"--upstream=routesrv"}, status: 2, stdrr: `--upstream: .*must be http`},
		{
			name: "authorities that cannot be read", args: []string{"--upstream=https://routesrv", "--upstream-tls=ca=nowhere.pem"},
			status: 2, stdrr: `--upstream-tls.*nowhere[.]pem`,
		},
		{name: "a relay does not read a cluster", args: []string{"--upstream=http://a", "-kubernetes"}, status: 2, stdrr: `--upstream: cannot be combined with -kubernetes`},
		{name: "help", args: []string{"--help"}, out: `(?s)--manifests.*-kubernetes-ingress-class`},
		{name: "a clean folder compiles", args: []string{"compile", shop}, out: `(?m)^kube_rg__shop__cart__get__0_0: `},
		{
			name: "problems are named with their owner", args: []string{"compile", "-"}, stdin: brokenGroup, status: 1,
			out: `kube__redirect`, stdrr: `error: RouteGroup shop/broken: \[routegroup\] parse failed`,
		},
		{
			name: "a missing folder is named", args: []string{"compile", "nowhere"}, status: 2, stdrr: `nowhere: no such file`,
		},
		{
			name: "a manifest that is no YAML is named with its line", args: []string{"compile", "-"}, stdin: "kind: Ingress\nx: [\n", status: 2,
			stdrr: `stdin|standard input|-:`,
		},
		{name: "no source", status: 2, stdrr: `--manifests`},
		{name: "an unknown flag", args: []string{"--manifest", shop}, status: 2, stdrr: `-?-manifest\b.*--manifests`},
		{
			name: "a flag that cannot be had says what to do", status: 2,
			args: []string{"--manifests", shop, "-kubernetes-status-from-service=a/b"}, stdrr: `-kubernetes-status-from-service`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := runWith(t, tt.stdin, tt.args...)
			if r.status != tt.status {
				t.Errorf("exit status %d, want %d", r.status, tt.status)
			}
			if !regexp.MustCompile(tt.out).MatchString(r.out) {
				t.Errorf("standard output does not match %q:\n%s", tt.out, r.out)
			}
			if !regexp.MustCompile(tt.stdrr).MatchString(r.err) {
				t.Errorf("standard error does not match %q:\n%s", tt.stdrr, r.err)
			}
		})
	}
}

// TestReadmeCommandServes runs the command of the README on other ports, and sends the same requests as its curl lines.
func TestReadmeCommandServes(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(readme), "\ngo run ./cmd/routesrv --manifests examples/shop\n") {
		t.Fatal("the README has another command")
	}
	url, stop := serveHere(t, "--manifests", shop)
	etag, body := awaitTable(t, url+"/routes")
	if want := runWith(t, "", "compile", shop).out; body+"\n" != want {
		t.Errorf("served:\n%s\ncompiled:\n%s", body, want)
	}
	etag = strings.Replace(etag, "+gzip", "", 1) // the Go client requests gzip, curl does not
	endpoints, err := os.ReadFile("../../docs/reference/endpoints.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"README.md": readme, "docs/reference/endpoints.md": endpoints} {
		if !strings.Contains(string(text), etag) {
			t.Errorf("%s shows another ETag than %s", name, etag)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	if status := stop(); status != program.ExitOK {
		t.Errorf("exit status %d", status)
	}
}

// serveHere runs the program in this process on free ports. It returns the URL of the main listener, and a function that ends the program
// and returns its exit status.
func serveHere(t *testing.T, args ...string) (url string, stop func() int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	log, stderr := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, append([]string{"-address=127.0.0.1:0", "-support-listener=127.0.0.1:0", "-wait-for-healthcheck-interval=0s"}, args...), nil,
			program.Stdio{In: strings.NewReader(""), Out: io.Discard, Err: stderr})
		stderr.Close()
	}()
	open := regexp.MustCompile(`msg="main listener open".* address=(\S+)`)
	for lines := bufio.NewScanner(log); lines.Scan(); {
		if found := open.FindStringSubmatch(lines.Text()); found != nil {
			go func() { _, _ = io.Copy(io.Discard, log) }()
			return "http://" + found[1], func() int { cancel(); return <-ended }
		}
	}
	t.Fatalf("the program ended with status %d", <-ended)
	return "", nil
}

// awaitTable polls until there is a table.
func awaitTable(t *testing.T, url string) (etag, body string) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); <-tick.C {
		resp, err := http.Get(url)
		if err != nil {
			continue
		}
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err == nil && resp.StatusCode == http.StatusOK {
			return resp.Header.Get("Etag"), string(b)
		}
	}
	t.Fatal("no table")
	return "", ""
}

// The arguments of a platform that runs Skipper's route server in some 200 clusters, as in its manifest.
func TestArgumentsOfARealPlatformAreTaken(t *testing.T) {
	text, err := os.ReadFile("../../app/options/testdata/platform.args")
	if err != nil {
		t.Fatal(err)
	}
	args := append(strings.Split(strings.TrimSpace(string(text)), "\n"), "--check-config")
	r := runWith(t, "", args...)
	if r.status != 0 || r.out != "configuration is valid\n" {
		t.Errorf("status %d, output %q, errors %q", r.status, r.out, r.err)
	}
	if !strings.Contains(r.err, "-opentracing") {
		t.Errorf("no word of the flag that has no effect: %q", r.err)
	}
	if strings.Contains(r.err, "TOKEN") {
		t.Errorf("a secret is printed: %q", r.err)
	}
}
