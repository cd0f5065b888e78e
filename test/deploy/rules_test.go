package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/routesrv/routesrv/test/programs"
)

// rule is one alert.
type rule struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

type ruleGroups struct {
	Groups []struct {
		Name  string `json:"name"`
		Rules []rule `json:"rules"`
	} `json:"groups"`
}

func (g *ruleGroups) rules() []*rule {
	var all []*rule
	for i := range g.Groups {
		for j := range g.Groups[i].Rules {
			all = append(all, &g.Groups[i].Rules[j])
		}
	}
	return all
}

// alerts returns the rules as they are applied.
func alerts(t *testing.T) *ruleGroups {
	t.Helper()
	spec, err := yaml.Marshal(find(t, "component-metrics", "PrometheusRule", "routesrv").fields["spec"])
	if err != nil {
		t.Fatal(err)
	}
	var groups ruleGroups
	if err := yaml.UnmarshalStrict(spec, &groups); err != nil {
		t.Fatal(err)
	}
	return &groups
}

// promtool runs promtool in a folder.
func promtool(t *testing.T, dir string, args ...string) (output string, err error) {
	t.Helper()
	path := programs.Tool(t, "prometheus", "promtool")
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// writeRules writes a rule file with the groups.
func writeRules(t *testing.T, dir string, groups *ruleGroups) {
	t.Helper()
	text, err := yaml.Marshal(groups)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "rules.yaml"), text, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestPromtoolTakesTheRules(t *testing.T) {
	dir, groups := t.TempDir(), alerts(t)
	writeRules(t, dir, groups)
	if out, err := promtool(t, dir, "check", "rules", "--lint=all", "--lint-fatal", "rules.yaml"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	groups.rules()[0].Expr = "absent("
	writeRules(t, dir, groups)
	if out, err := promtool(t, dir, "check", "rules", "rules.yaml"); err == nil {
		t.Errorf("promtool takes what is no expression:\n%s", out)
	}
}

const alertTests = "testdata/alerts.test.yaml"

func TestAlertsFireWhenTheyShouldAndAreQuietOtherwise(t *testing.T) {
	dir, groups := t.TempDir(), alerts(t)
	for _, r := range groups.rules() {
		r.Annotations = map[string]string{"summary": r.Annotations["summary"]}
	}
	writeRules(t, dir, groups)
	tests, err := filepath.Abs(alertTests)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(tests)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "test.yaml"), text, 0o600); err != nil { // rule files are found beside it
		t.Fatal(err)
	}
	if out, err := promtool(t, dir, "test", "rules", "test.yaml"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// alertCases are the parts of the tests that the checks below read.
type alertCases struct {
	Tests []struct {
		Name  string `json:"name"`
		Cases []struct {
			Alert string `json:"alertname"`
			Want  []struct {
				Labels map[string]string `json:"exp_labels"`
			} `json:"exp_alerts"`
		} `json:"alert_rule_test"`
	} `json:"tests"`
}

// labelUse matches labels in the texts of an alert.
var labelUse = regexp.MustCompile(`\$labels\.(\w+)`)

// TestEveryAlertIsTestedBothWays: and its texts use only labels that it has when it fires.
func TestEveryAlertIsTestedBothWays(t *testing.T) {
	text, err := os.ReadFile(alertTests)
	if err != nil {
		t.Fatal(err)
	}
	var cases alertCases
	if err := yaml.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	fires, quiet := make(map[string][]string), make(map[string]bool) // the labels with which it fires
	for _, test := range cases.Tests {
		for _, c := range test.Cases {
			if len(c.Want) == 0 {
				quiet[c.Alert] = true
				continue
			}
			fires[c.Alert] = []string{}
			for name := range c.Want[0].Labels {
				fires[c.Alert] = append(fires[c.Alert], name)
			}
		}
	}
	for _, r := range alerts(t).rules() {
		labels, ok := fires[r.Alert]
		if !ok || !quiet[r.Alert] {
			t.Errorf("%s: a test in which it fires: %v; one in which it is quiet: %v", r.Alert, ok, quiet[r.Alert])
			continue
		}
		for _, text := range r.Annotations {
			for _, use := range labelUse.FindAllStringSubmatch(text, -1) {
				if !slices.Contains(labels, use[1]) {
					t.Errorf("%s speaks of the label %s, which it does not have: %v", r.Alert, use[1], labels)
				}
			}
		}
	}
}

var (
	alertName = regexp.MustCompile(`^Routesrv[A-Z][A-Za-z]+$`)
	// seriesName matches the series of an expression.
	seriesName = regexp.MustCompile(`\b(?:routesrv|dataplane|sidecar|shadow)_[a-z_]+\b`)
)

// TestAlertsAskForSeriesThatAreThere: an alert on a renamed series would never fire.
func TestAlertsAskForSeriesThatAreThere(t *testing.T) {
	metrics, err := os.ReadFile("../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range alerts(t).rules() {
		names := seriesName.FindAllString(r.Expr, -1)
		if len(names) == 0 {
			t.Errorf("%s asks for no series of ours: %s", r.Alert, r.Expr)
		}
		for _, name := range names {
			if !strings.Contains(string(metrics), "`"+name+"`") {
				t.Errorf("%s asks for %s, which docs/reference/metrics.md does not have", r.Alert, name)
			}
		}
	}
}

// runbook is where the alerts lead, unless the value runbookBase says otherwise.
const runbook = "docs/operate/runbook.md"

// grouping matches the labels that an aggregation or a match keeps.
var grouping = regexp.MustCompile(`\b(by|on|without|ignoring|absent|absent_over_time)\s*\(([^)]*)\)`)

// TestAlertsAreOfOneCluster: in a ruler over many clusters no expression adds, compares or hides series of different clusters.
func TestAlertsAreOfOneCluster(t *testing.T) {
	aggregation := regexp.MustCompile(`\b(sum|min|max|avg|count|group|topk|bottomk|quantile)\s*(by|without)?\s*\(`)
	for _, r := range alerts(t).rules() {
		for _, m := range grouping.FindAllStringSubmatch(r.Expr, -1) {
			labels := strings.Split(strings.ReplaceAll(m[2], " ", ""), ",")
			switch m[1] {
			case "by", "on":
				if !slices.Contains(labels, "cluster") || !slices.Contains(labels, "namespace") {
					t.Errorf("%s: %s loses the cluster or the namespace", r.Alert, m[0])
				}
			case "without", "ignoring":
				if slices.Contains(labels, "cluster") || slices.Contains(labels, "namespace") {
					t.Errorf("%s: %s loses the cluster or the namespace", r.Alert, m[0])
				}
			default:
				t.Errorf("%s: %s is quiet while another cluster has the series", r.Alert, m[0])
			}
		}
		for _, m := range aggregation.FindAllStringSubmatch(r.Expr, -1) {
			if m[2] == "" {
				t.Errorf("%s: %s adds up all clusters", r.Alert, m[0])
			}
		}
	}
}

// TestRunbookCanBeElsewhere: the value runbookBase changes every link.
func TestRunbookCanBeElsewhere(t *testing.T) {
	const base = "https://wiki.example.org/routesrv"
	found := 0
	for _, o := range renderValues(t, map[string]any{"runbookBase": base}) {
		leaves(o.kind, o.fields, func(path string, value any) {
			if !strings.HasSuffix(path, ".runbook_url") {
				return
			}
			found++
			if text, _ := value.(string); !strings.HasPrefix(text, base+"#routesrv") {
				t.Errorf("%s: %v", path, value)
			}
		})
	}
	if want := len(alerts(t).rules()); found != want {
		t.Errorf("%d links, want %d", found, want)
	}
}

// TestEveryAlertSaysWhatToDo: each links to a heading of the runbook, by the anchor of the heading.
func TestEveryAlertSaysWhatToDo(t *testing.T) {
	seen := make(map[string]bool)
	for _, r := range alerts(t).rules() {
		if !alertName.MatchString(r.Alert) || seen[r.Alert] {
			t.Errorf("%q: want a name of its own that begins with Routesrv", r.Alert)
		}
		seen[r.Alert] = true
		if want := runbook + "#" + strings.ToLower(r.Alert); r.Annotations["runbook_url"] != want {
			t.Errorf("%s: runbook_url %q, want %q", r.Alert, r.Annotations["runbook_url"], want)
		}
		if r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
			t.Errorf("%s has no summary or no description", r.Alert)
		}
		if s := r.Labels["severity"]; s != "warning" && s != "critical" && s != "{{ if $labels.reason }}warning{{ else }}critical{{ end }}" {
			t.Errorf("%s: severity %q, want warning or critical", r.Alert, s)
		}
	}
}
