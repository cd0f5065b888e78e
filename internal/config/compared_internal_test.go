package config

import "testing"

func TestNotesAreAboutFlagsThatExist(t *testing.T) {
	p := NewRouteServer(serverCommand(), new(RouteServer))
	for name, c := range notes() {
		if o, ok := p.byName[name]; !ok || o.own {
			t.Errorf("there is a note about -%s, which is no flag that Skipper has, too", name)
		}
		if c.Name != "" || c.Likeness == "" {
			t.Errorf("-%s: %+v", name, c)
		}
	}
	for _, name := range unsupportedThatCount {
		if unsupportedFlags()[name].name == "" {
			t.Errorf("-%s is not known", name)
		}
	}
}
