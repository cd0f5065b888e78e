package catalogue_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/routesrv/routesrv/catalogue"
	"github.com/routesrv/routesrv/table"
)

func tableOf(t *testing.T, routes ...string) *table.Table {
	t.Helper()
	parsed, err := table.Parse(strings.Join(routes, "\n"))
	if err != nil {
		t.Fatal(err)
	}
	tab, err := table.New(parsed, 1, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

func TestKillersOfATable(t *testing.T) {
	const (
		safe   = `safe: Path("/a") -> admissionControl("g", "active", "1s", 5, 10, 0.9, 0.95, 0.5) -> <shunt>;`
		deadly = `deadly: Path("/b") -> admissionControl("g", "active", "0s", 5, 10, 0.9, 0.95, 0.5) -> <shunt>;`
		second = `second: Path("/c") -> compress(-1) -> "http://10.0.0.1:80";`
		both   = `both: Path("/d") -> compress(-1) -> admissionControl("g", "active", "0s", 5, 10, 0.9, 0.95, 0.5) -> <shunt>;`
		quoted = `quoted: Path("/admissionControl") -> inlineContent("admissionControl(\"g\", \"active\", \"0s\")") -> <shunt>;`
	)
	for _, c := range []struct {
		name    string
		checked *table.Table
		table   *table.Table
		want    []string
	}{
		{name: "no filter with a rule", table: tableOf(t, `a: * -> <shunt>;`)},
		{name: "good arguments, and the filter in a text", table: tableOf(t, safe, quoted)},
		{name: "all of them", table: tableOf(t, safe, deadly, quoted, second), want: []string{"deadly", "second"}},
		{name: "two mistakes in one route, which counts once", table: tableOf(t, second, both), want: []string{"both", "second"}},
		{name: "it came since", checked: tableOf(t, safe), table: tableOf(t, safe, deadly), want: []string{"deadly"}},
		{name: "routes that were checked are not checked again", checked: tableOf(t, deadly), table: tableOf(t, safe, deadly)},
		{name: "no route", table: tableOf(t)},
	} {
		var got []string
		_, killers := catalogue.WithoutKillers(c.checked, c.table)
		for _, k := range killers {
			if k.Err == nil {
				t.Errorf("%s: %s without its mistake", c.name, k.ID)
			}
			got = append(got, k.ID)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
