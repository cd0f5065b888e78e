package deploy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/routesrv/routesrv/test/kubetest"
	"github.com/routesrv/routesrv/test/programs"
)

// dashboard has the parts of a Grafana dashboard that the test reads.
type dashboard struct {
	Panels []struct {
		Title       string `json:"title"`
		Type        string `json:"type"`
		Description string `json:"description"`
		Targets     []struct {
			Expr string `json:"expr"`
		} `json:"targets"`
	} `json:"panels"`
	Templating struct {
		List []struct {
			Name  string `json:"name"`
			Query any    `json:"query"`
		} `json:"list"`
	} `json:"templating"`
}

// readDashboard reads the dashboard from the ConfigMap that is applied.
func readDashboard(t *testing.T) *dashboard {
	t.Helper()
	m := find(t, "component-dashboard", "ConfigMap", "routesrv-dashboard")
	data, _ := m.fields["data"].(map[string]any)
	text, _ := data["routesrv.json"].(string)
	var d dashboard
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		t.Fatal(err)
	}
	if labels, _ := m.fields["metadata"].(map[string]any)["labels"].(map[string]any); labels["grafana_dashboard"] != "1" {
		t.Errorf("labels %v: Grafana's sidecar does not find it", labels)
	}
	return &d
}

// prometheus is a real Prometheus.
type prometheus struct {
	address string
	log     *bytes.Buffer
	ended   chan struct{}
}

// startPrometheus runs a Prometheus that scrapes the targets every second. If its port was taken meanwhile, it uses another one.
func startPrometheus(t *testing.T, targets map[string]string) *prometheus {
	t.Helper()
	path := programs.Tool(t, "prometheus", "prometheus")
	dir := t.TempDir()
	config := "global: {scrape_interval: 1s, scrape_timeout: 1s}\nscrape_configs:\n"
	for job, address := range targets {
		config += fmt.Sprintf("- {job_name: %s, static_configs: [{targets: ['%s'], labels: {cluster: one, namespace: routesrv}}]}\n", job, address)
	}
	if err := os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		p := &prometheus{address: programs.FreeAddress(t), log: new(bytes.Buffer), ended: make(chan struct{})}
		cmd := exec.Command(path, "--config.file=prometheus.yml", "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+p.address)
		cmd.Dir, cmd.Stdout, cmd.Stderr = dir, p.log, p.log
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		go func() {
			defer close(p.ended)
			_ = cmd.Wait() // it is killed
		}()
		t.Cleanup(func() {
			_ = cmd.Process.Kill() // it may have exited
			<-p.ended
		})
		if p.ready(t) {
			return p
		}
	}
	t.Fatal("Prometheus does not start")
	return nil
}

// ready waits until the Prometheus answers. It returns false if the process has exited.
func (p *prometheus) ready(t *testing.T) bool {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for {
		select {
		case <-p.ended:
			t.Logf("Prometheus has ended:\n%s", p.log)
			return false
		case <-deadline:
			t.Fatal("Prometheus is not ready")
		case <-tick.C:
			if _, err := p.get(t.Context(), "/-/ready"); err == nil {
				return true
			}
		}
	}
}

// get returns the body of a response with the status 200.
func (p *prometheus) get(ctx context.Context, path string) ([]byte, error) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.address+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, body)
	}
	return body, err
}

// query returns how many series an expression has now.
func (p *prometheus) query(ctx context.Context, expr string) (int, error) {
	body, err := p.get(ctx, "/api/v1/query?query="+url.QueryEscape(expr))
	if err != nil {
		return 0, err
	}
	var answer struct {
		Data struct {
			Result []any `json:"result"`
		} `json:"data"`
	}
	err = json.Unmarshal(body, &answer)
	return len(answer.Data.Result), err
}

// observed starts a route server and a data plane that have data for every series of the dashboard.
func observed(t *testing.T) (routesrv, dataplane *server) {
	t.Helper()
	text, err := os.ReadFile("../examples/shop/services.yaml")
	if err != nil {
		t.Fatal(err)
	}
	api, err := kubetest.New([]byte(string(text)+`
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web, namespace: shop}
spec: {rules: [{host: web.example.org, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: broken, namespace: shop}
spec: {rules: [{host: b.example.org, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: nothing, port: {number: 80}}}}]}}]}
`), kubetest.API{})
	if err != nil {
		t.Fatal(err)
	}
	api.SetRevision(1)
	source := "-kubernetes-url=" + api.Start(t)
	dir := t.TempDir()
	secret := newIssuer(t).secret(t, certificateSpec{CommonName: "routesrv", Usages: []string{"digital signature", "server auth"}}, net.IPv4(127, 0, 0, 1))
	for name, content := range secret {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	routesrv = process{binary: filepath.Join(binaries, "routesrv"), args: []string{
		"-kubernetes", source, "--enable-tls", "-tls-cert=" + filepath.Join(dir, "tls.crt"), "-tls-key=" + filepath.Join(dir, "tls.key"),
		"--state-dir=" + filepath.Join(dir, "state"),
		"-source-poll-timeout=500",
	}}.serve(t)
	routesrv.ready(t)
	dataplane = process{binary: filepath.Join(binaries, "dataplane-client"), args: []string{
		"-kubernetes", source, "--mode=Pre", "--pod-name=p", "--upstream=https://" + routesrv.addresses[mainListener],
		"--upstream-tls=ca=" + filepath.Join(dir, "ca.crt"), "--state-dir=" + filepath.Join(dir, "plane"),
	}}.serve(t)
	dataplane.ready(t)
	return routesrv, dataplane
}

// labelValues matches the query of a variable.
var labelValues = regexp.MustCompile(`^label_values\((.*), (\w+)\)$`)

// TestEveryQueryOfTheDashboardHasAnAnswer: of a real Prometheus that scrapes real processes. A renamed series would be an empty
// panel, which looks as if all were well.
func TestEveryQueryOfTheDashboardHasAnAnswer(t *testing.T) {
	d := readDashboard(t)
	routesrv, dataplane := observed(t)
	p := startPrometheus(t, map[string]string{"routesrv": routesrv.addresses[supportListener], "dataplane": dataplane.addresses[supportListener]})
	chosen := strings.NewReplacer("$cluster", "one", "$namespace", "routesrv", "$instance", ".*", "$__rate_interval", "30s")
	waiting := make(map[string]string) // title by expression
	for _, panel := range d.Panels {
		if panel.Type == "row" {
			continue
		}
		if panel.Title == "" || panel.Description == "" || len(panel.Targets) == 0 {
			t.Errorf("panel %q has no title, no description or no query", panel.Title)
		}
		for _, target := range panel.Targets {
			if !strings.Contains(target.Expr, "$cluster") || !strings.Contains(target.Expr, "$instance") {
				t.Errorf("%s does not ask for what was chosen: %s", panel.Title, target.Expr)
			}
			waiting[chosen.Replace(target.Expr)] = panel.Title
		}
	}
	for _, v := range d.Templating.List {
		if q, ok := v.Query.(map[string]any); ok {
			m := labelValues.FindStringSubmatch(fmt.Sprint(q["query"]))
			if m == nil {
				t.Fatalf("variable %s: query %v", v.Name, q)
			}
			waiting["group by ("+m[2]+") ("+chosen.Replace(m[1])+")"] = "variable " + v.Name
		}
	}
	if len(waiting) < 60 {
		t.Fatalf("%d queries found; these are not all", len(waiting))
	}
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); len(waiting) > 0; <-tick.C {
		for expr, title := range waiting {
			switch n, err := p.query(t.Context(), expr); {
			case err != nil:
				t.Errorf("%s: %s: %v", title, expr, err)
				delete(waiting, expr)
			case n > 0:
				delete(waiting, expr)
			}
		}
		if time.Now().After(deadline) {
			for expr, title := range waiting {
				t.Errorf("%s: no answer to %s", title, expr)
			}
			return
		}
	}
}
