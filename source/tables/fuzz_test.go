package tables

import (
	"strings"
	"testing"
	"time"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/table"
)

// FuzzReadRoutes: a file that is compared is the routes that its text says, or an error that names the file; what is larger than
// the limit is never read, and a copy of a table that lost its end is no table.
func FuzzReadRoutes(f *testing.F) {
	var copied strings.Builder
	tab, err := table.New([]table.Route{{ID: "a", Text: `a: Path("/") -> <shunt>;`}}, 7, time.Unix(1, 0))
	if err != nil {
		f.Fatal(err)
	}
	if err := tab.WriteFile(&copied, table.FileMeta{}); err != nil {
		f.Fatal(err)
	}
	for _, text := range []string{"", "a: * -> <shunt>;", "a: *", "\x00", "// a comment", copied.String(), copied.String()[:copied.Len()/2], "a: * -> <shunt>; a: * -> <shunt>;"} {
		f.Add(text, int64(4096))
	}
	f.Add("a: * -> <shunt>;", int64(3))
	f.Fuzz(func(t *testing.T, text string, limit int64) {
		limit = max(limit, 0) % (1 << 20)
		got, err := readRoutes("file.eskip", strings.NewReader(text), limit)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "file.eskip") {
				t.Errorf("the error does not name the file: %v", err)
			}
			return
		}
		if int64(len(text)) > limit {
			t.Fatalf("%d bytes read with a limit of %d", len(text), limit)
		}
		want, err := eskip.Parse(text)
		if err != nil || len(want) != len(got.Routes) {
			t.Errorf("%d routes, want %d, %v", len(got.Routes), len(want), err)
		}
	})
}
