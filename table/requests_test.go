package table_test

import (
	"slices"
	"testing"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/table"
)

func TestWhichRequestsARouteAnswers(t *testing.T) {
	for _, test := range []struct {
		expr  string
		path  string
		regex bool
		hosts []string
	}{
		{`* -> <shunt>`, "", false, nil},
		{`Path("/a") -> <shunt>`, "/a", false, nil},
		{`PathSubtree("/a") -> "http://10.0.0.1"`, "/a", false, nil},
		{`PathRegexp(/^\/a[/]b/) -> <shunt>`, "^/a[/]b", true, nil},
		{`PathRegexp("^(/a)") -> <shunt>`, "^(/a)", true, nil},
		{`Host(/^(a[.]org|b[.]org)$/) && Path("/x") -> <shunt>`, "/x", false, []string{"a[.]org", "b[.]org"}},
		{`Header("Path", "PathSubtree(\"/no\") -> ") && Path("/yes") -> <shunt>`, "/yes", false, nil},
		{`Weight(2) && Traffic(.5) && MyPath("/no") && PathSubtree("/yes") -> <shunt>`, "/yes", false, nil},
		{`Method("GET") -> setPath("/no") -> inlineContent("Path(\"/no\")") -> <shunt>`, "", false, nil},
	} {
		parsed, err := eskip.Parse("r: " + test.expr + ";")
		if err != nil {
			t.Fatal(err)
		}
		r := table.NewRoute(parsed[0])
		path, regex := r.Path()
		// The printer may spell an expression in another way, with a slash that is escaped.
		if unescape(path) != test.path || regex != test.regex {
			t.Errorf("%s: path %q, expression %v", r.Text, path, regex)
		}
		if hosts := slices.Collect(r.HostsOf()); !slices.Equal(hosts, test.hosts) {
			t.Errorf("%s: hosts %q", r.Text, hosts)
		}
	}
}

func unescape(s string) string {
	var out []byte
	for i := range len(s) {
		if s[i] != '\\' {
			out = append(out, s[i])
		}
	}
	return string(out)
}

func FuzzPathNeverPanics(f *testing.F) {
	f.Add(`r: Path("/a") -> <shunt>;`)
	f.Add(`r: PathRegexp(/^\/[/]a`)
	f.Add(`r: Path`)
	f.Add(`r: Path("`)
	f.Fuzz(func(t *testing.T, text string) {
		r := table.Route{ID: "r", Text: text}
		r.Path()
	})
}
