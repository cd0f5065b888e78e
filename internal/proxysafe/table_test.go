package proxysafe_test

import (
	"strings"
	"testing"
	"time"

	"github.com/routesrv/routesrv/internal/proxysafe"
	"github.com/routesrv/routesrv/table"
)

func TestCheckTable(t *testing.T) {
	const (
		safe      = `safe: Path("/a") -> admissionControl("g", "active", "1s", 5, 10, 0.9, 0.95, 0.5) -> <shunt>;`
		dangerous = `danger: Path("/b") -> admissionControl("g", "active", "0s", 5, 10, 0.9, 0.95, 0.5) -> <shunt>;`
		quoted    = `quoted: Path("/admissionControl") -> inlineContent("admissionControl(\"g\", \"active\", \"0s\")") -> <shunt>;`
	)
	make := func(routes ...string) *table.Table {
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
	for _, c := range []struct {
		name    string
		checked *table.Table
		table   *table.Table
		want    string
	}{
		{name: "no dangerous filter", table: make(`a: * -> <shunt>;`)},
		{name: "a dangerous filter with good arguments, and its name in a text", table: make(safe, quoted)},
		{name: "one dangerous route", table: make(safe, dangerous, quoted), want: `route "danger" would end the process`},
		{name: "it came since", checked: make(safe), table: make(safe, dangerous), want: `route "danger"`},
		{name: "what was checked is not looked at again", checked: make(dangerous), table: make(safe, dangerous)},
		{name: "no route", table: make()},
	} {
		err := proxysafe.CheckTable(c.checked, c.table)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}
