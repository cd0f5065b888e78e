package catalogue

import "testing"

// TestCatalogueIsReadable: the package can check each kind of argument in the catalogue, and each filter has an arity.
func TestCatalogueIsReadable(t *testing.T) {
	all := readSpecs(filtersText)
	if len(all) != 184 {
		t.Errorf("%d filters, want 184", len(all))
	}
	kinds := map[string]bool{}
	for name, f := range all {
		if len(f.arities) == 0 || f.step < 1 || !f.ignored && !f.open && f.arities[len(f.arities)-1] > len(f.kinds) {
			t.Errorf("%s: %+v", name, f)
		}
		for _, kind := range append(f.kinds, f.rest...) {
			kinds[kind] = true
		}
	}
	// Each kind accepts some argument and refuses a boolean, which eskip does not have.
	samples := []any{
		"", "a", "1", "true", "10ms", "http://a/b", "deadbeef", "10.0.0.0/8", "10.0.0.1", "2026-01-01T00:00:00Z", "request", "active", "/:q", -1.0, 0.0, 1.0, 200.0,
	}
	for kind := range kinds {
		good := false
		for _, s := range samples {
			good = good || checkArgument(kind, s) == nil
		}
		if !good && kind != "-" {
			t.Errorf("kind %s accepts none of %v", kind, samples)
		}
		if checkArgument(kind, false) == nil {
			t.Errorf("kind %s accepts a boolean", kind)
		}
	}
}
