package server_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/routesrv/routesrv/app/server"
	"github.com/routesrv/routesrv/fleet"
	"github.com/routesrv/routesrv/test/programs"
)

// hurry is how many times faster than by the clock the rules are in TestAlertsOfAPrometheus.
const hurry = 20

// durations are the times of rules: of "for", of ranges, and of subqueries.
var durations = regexp.MustCompile(`(for: |\[|:)(\d+)([smd])(\n|:|\])`)

// shippedRules writes the rules of the component metrics as a rule file.
func shippedRules(t *testing.T, dir string) {
	t.Helper()
	text, err := os.ReadFile("../../deploy/kustomize/components/metrics/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	units := map[string]time.Duration{"s": time.Second, "m": time.Minute, "d": 24 * time.Hour}
	text = durations.ReplaceAllFunc(text, func(found []byte) []byte {
		m := durations.FindSubmatch(found)
		n, _ := strconv.Atoi(string(m[2]))
		return fmt.Appendf(nil, "%s%dms%s", m[1], (time.Duration(n) * units[string(m[3])] / hurry).Milliseconds(), m[4])
	})
	var object struct {
		Spec any `json:"spec"`
	}
	if err := yaml.Unmarshal(text, &object); err != nil {
		t.Fatal(err)
	}
	if text, err = yaml.Marshal(object.Spec); err == nil {
		err = os.WriteFile(filepath.Join(dir, "rules.yaml"), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestAlertsOfAPrometheus: with the shipped rules, a real Prometheus that scrapes a server in each of these states has the one alert that tells of
// it, and no other.
func TestAlertsOfAPrometheus(t *testing.T) {
	program := programs.Tool(t, "prometheus", "prometheus")
	objects := backend("s", "10.2.0.1") + ingresses(shops(60)...)
	servers := make(map[string]*fixture)
	want := map[string]string{
		"calm": "", "accident": "RoutesrvGuardHolding critical", "loss": "RoutesrvRequestsLost warning", "deaths": "RoutesrvProxiesDie critical",
		"takeover": "RoutesrvRequestsLost warning", "trial": "RoutesrvUntested warning", "kept": "RoutesrvGuardHolding warning",
	}
	for state := range want {
		servers[state] = startReading(t, objects, true, func(cfg *server.Config) {
			cfg.StateDir = t.TempDir()
			switch state {
			case "trial":
				cfg.Review.TrialProxy = &url.URL{Scheme: "http", Host: programs.FreeAddress(t)}
				cfg.Review.TrialTimeout = time.Second
			case "kept":
				keepTakeovers(1)(cfg)
			}
		})
		servers[state].polled()
	}

	dir, address := t.TempDir(), programs.FreeAddress(t)
	shippedRules(t, dir)
	config := "global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [rules.yaml]\nscrape_configs:\n"
	for state, f := range servers {
		config += fmt.Sprintf("- {job_name: %s, static_configs: [{targets: [%q]}]}\n", state, f.support)
	}
	if err := os.WriteFile(filepath.Join(dir, "prometheus.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	log := &programs.Buffer{}
	cmd := exec.Command(program, "--config.file=prometheus.yaml", "--storage.tsdb.path=data", "--web.listen-address="+address)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	ask := func(path string, into any) bool {
		resp, err := servers["calm"].client.Get("http://" + address + path)
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		return err == nil && resp.StatusCode == http.StatusOK && json.Unmarshal(body, into) == nil
	}
	var answer struct {
		Data struct {
			Result []any `json:"result"`
			Alerts []struct {
				State  string            `json:"state"`
				Labels map[string]string `json:"labels"`
			} `json:"alerts"`
		} `json:"data"`
	}
	servers["calm"].eventually("scrapes", func() bool {
		return ask("/api/v1/query?query="+url.QueryEscape("routesrv_takeovers_total"), &answer) && len(answer.Data.Result) == len(servers)
	})

	servers["accident"].delete(shops(60)[:40]...)
	servers["loss"].delete(shops(60)[:6]...)
	servers["takeover"].apply(taking("other", shops(60)[:40]...))
	servers["kept"].apply(taking("other", shops(60)[:40]...))
	report := func() {
		f := servers["deaths"]
		served := f.view("").Table
		body, err := json.Marshal(fleet.Report{Holds: fleet.Name{Digest: served.Digest, Revision: served.Revision}, Suspects: []fleet.Suspect{
			{Digest: served.Digest, Deaths: 2, Evidence: "the proxy died 2 times"},
		}})
		if err != nil {
			t.Fatal(err)
		}
		if sent := f.ask(http.MethodPost, "/clients", string(body), "Routesrv-Client", "kind=sidecar;pod=ingress/p;version=v1;mode=Exec;interval=3000"); sent.status != http.StatusNoContent {
			t.Fatalf("report: %d %s", sent.status, sent.body)
		}
	}
	var got map[string]string
	fired := make(map[string]map[string]bool)
	servers["calm"].eventually("all alerts", func() bool {
		report()
		if !ask("/api/v1/alerts", &answer) {
			return false
		}
		got = make(map[string]string)
		for _, a := range answer.Data.Alerts {
			if a.State != "firing" {
				continue
			}
			job, is := a.Labels["job"], a.Labels["alertname"]+" "+a.Labels["severity"]
			got[job] = is
			if fired[job] == nil {
				fired[job] = make(map[string]bool)
			}
			fired[job][is] = true
		}
		for state, alert := range want {
			if got[state] != alert {
				return false
			}
		}
		return true
	})
	for until := time.Now().Add(5 * time.Second); time.Now().Before(until); time.Sleep(500 * time.Millisecond) { // nothing shows that nothing comes
		report()
		if !ask("/api/v1/alerts", &answer) {
			t.Fatalf("no answer; log:\n%s", log)
		}
		for _, a := range answer.Data.Alerts {
			if fired[a.Labels["job"]] == nil {
				fired[a.Labels["job"]] = make(map[string]bool)
			}
			fired[a.Labels["job"]][a.Labels["alertname"]+" "+a.Labels["severity"]] = true
		}
	}
	for state, alert := range want {
		if all := slices.Sorted(maps.Keys(fired[state])); alert == "" && len(all) > 0 || alert != "" && !slices.Equal(all, []string{alert}) {
			t.Errorf("%s: alerts %q, want %q", state, all, alert)
		}
	}
}
