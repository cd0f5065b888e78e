package eskip_test

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/routesrv/routesrv/eskip"
)

func TestRoutesMarshalAs(t *testing.T) {
	for _, c := range []struct {
		route *eskip.Route
		want  string
	}{
		{&eskip.Route{}, `{}`},
		{nil, `null`},
		{one(t, `r: * -> <shunt>`), `{"id":"r","backend":{"type":"shunt"}}`},
		{one(t, `* -> "http://x"`), `{"backend":{"type":"network","address":"http://x"}}`},
		{one(t, `* -> <loopback>`), `{"backend":{"type":"loopback"}}`},
		{one(t, `* -> <dynamic>`), `{"backend":{"type":"dynamic"}}`},
		{&eskip.Route{BackendType: eskip.ForwardBackend, Backend: "x"}, `{"backend":{"type":"forward"}}`},
		{&eskip.Route{BackendType: 17}, `{"backend":{"type":"unknown"}}`},
		{one(t, `r: Weight(1) && Path("/<&>") && None() -> f("a", 1.5) -> g() -> <random, "http://b?zone=z", "http://a">`),
			`{"id":"r","backend":{"type":"lb","algorithm":"random","endpoints":["http://a","http://b?zone=z"]},` +
				`"predicates":[{"name":"None"},{"name":"Path","args":["/<&>"]},{"name":"Weight","args":[1]}],` +
				`"filters":[{"name":"f","args":["a",1.5]},{"name":"g"}]}`},
		{&eskip.Route{Predicates: []*eskip.Predicate{{Name: "Any"}, {Name: "*"}}}, `{"predicates":[{"name":"*"},{"name":"Any"}]}`},
	} {
		got, err := c.route.MarshalJSON()
		if err != nil || string(got) != c.want {
			t.Errorf("%v:\n got %s, %v\nwant %s", c.route, got, err, c.want)
		}
	}
}

func TestMarshalingEscapesHTMLOnlyIfTheEncoderDoes(t *testing.T) {
	f := &eskip.Filter{Name: "f", Args: []interface{}{"<&>"}}
	const raw, escaped = `{"name":"f","args":["<&>"]}`, `{"name":"f","args":["\u003c\u0026\u003e"]}`
	if got, err := f.MarshalJSON(); err != nil || string(got) != raw {
		t.Errorf("MarshalJSON: got %s, %v, want %s", got, err, raw)
	}
	if got, err := json.Marshal(f); err != nil || string(got) != escaped {
		t.Errorf("json.Marshal: got %s, %v, want %s", got, err, escaped)
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode([]*eskip.Filter{f}); err != nil || buf.String() != "["+raw+"]\n" {
		t.Errorf("encoder: got %s, %v, want [%s]", buf.String(), err, raw)
	}
}

func TestArgumentsWithoutJSONFormAreErrors(t *testing.T) {
	f := &eskip.Filter{Name: "f", Args: []interface{}{func() {}}}
	if got, err := f.MarshalJSON(); err == nil {
		t.Errorf("got %s, want an error", got)
	}
	if got, err := (&eskip.Route{Filters: []*eskip.Filter{f}}).MarshalJSON(); err == nil {
		t.Errorf("got %s, want an error", got)
	}
}

func TestRoutesUnmarshalAs(t *testing.T) {
	for _, c := range []struct {
		text string
		want eskip.Route
	}{
		{`{}`, eskip.Route{}},
		{`{"id":"r","backend":{}}`, eskip.Route{Id: "r"}},
		{`{"backend":{"type":"","address":"x"}}`, eskip.Route{Backend: "x"}},
		{`{"backend":{"type":"network","address":"x","algorithm":"y","endpoints":["z"]}}`, eskip.Route{Backend: "x"}},
		{`{"backend":{"type":"shunt","address":"x"}}`, eskip.Route{BackendType: eskip.ShuntBackend}},
		{`{"backend":{"type":"forward","address":"x"}}`, eskip.Route{BackendType: eskip.ForwardBackend}},
		{`{"backend":{"type":"lb","address":"x","algorithm":"random","endpoints":["http://b?zone=z","not a uri"]}}`, eskip.Route{
			BackendType: eskip.LBBackend, LBAlgorithm: "random",
			LBEndpoints: []*eskip.LBEndpoint{{Address: "http://b", Zone: "z"}, {Address: "not a uri"}},
		}},
		{`{"backend":{"type":"lb","endpoints":[]},"predicates":[],"filters":[]}`, eskip.Route{BackendType: eskip.LBBackend}},
		{`{"predicates":[{"name":"Path","args":["/"]},{"name":"Any"}],"filters":[{"name":"f","args":[1,"a",true,null,[1]]}]}`, eskip.Route{
			Predicates: []*eskip.Predicate{{Name: "Path", Args: []interface{}{"/"}}, {Name: "Any"}},
			Filters:    []*eskip.Filter{{Name: "f", Args: []interface{}{1.0, "a", true, nil, []interface{}{1.0}}}},
		}},
	} {
		got := eskip.Route{Id: "old", Path: "/old", Shunt: true}
		if err := json.Unmarshal([]byte(c.text), &got); err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s:\n got %+v, %v\nwant %+v", c.text, got, err, c.want)
		}
	}
}

func TestUnmarshalErrorsLeaveTheRouteAlone(t *testing.T) {
	for text, want := range map[string]string{
		`{"backend":{"type":"unknown"}}`: "unsupported backend type: unknown",
		`{"backend":{"type":"LB"}}`:      "unsupported backend type: LB",
		`{"filters":[null]}`:             "null in a list of predicates or filters",
		`{"predicates":[null]}`:          "null in a list of predicates or filters",
		`{"id":1}`:                       "json: cannot unmarshal number into Go struct field jsonRoute.id of type string",
	} {
		r := eskip.Route{Id: "old"}
		err := json.Unmarshal([]byte(text), &r)
		if err == nil || err.Error() != want || !reflect.DeepEqual(r, eskip.Route{Id: "old"}) {
			t.Errorf("%s: got %+v, error %v, want error %s", text, r, err, want)
		}
	}
}

func TestRoutesSurviveJSON(t *testing.T) {
	for _, r := range append(eskip.MustParse(tableText(300)), one(t, everything), &eskip.Route{}) {
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatalf("%s: %v", r, err)
		}
		var got *eskip.Route
		if err := json.Unmarshal(text, &got); err != nil || !eskip.Eq(got, r) {
			t.Fatalf("%s: %s gives %v, error %v", r, text, got, err)
		}
	}
}

func TestRoutesSurviveGob(t *testing.T) {
	want := append(eskip.MustParse(tableText(30)), one(t, everything))
	var buf bytes.Buffer
	if err := gob.NewEncoder(&buf).Encode(want); err != nil {
		t.Fatal(err)
	}
	var got []*eskip.Route
	if err := gob.NewDecoder(&buf).Decode(&got); err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("got %v, error %v", got, err)
	}
}

func FuzzJSON(f *testing.F) {
	for _, s := range []string{
		`{}`, `null`, `{"id":"r","backend":{"type":"lb","algorithm":"random","endpoints":["http://b?zone=z","x"]}}`, `{"predicates":[null]}`,
		`{"predicates":[{"name":"Path","args":["/"]}],"filters":[{"name":"f","args":[1,"a",true,null,[1],{"a":{}}]},{}]}`,
		`{"backend":{"type":"network","address":"\u003c\ud800"}}`, `{"backend":{"type":"forward"}}`, `{"filters":[{"args":[1e400]}]}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var r *eskip.Route
		if err := json.Unmarshal([]byte(text), &r); err != nil || r == nil {
			return
		}
		again, err := json.Marshal(r)
		if err != nil {
			t.Fatalf("%s: what was read from JSON has no JSON form: %v", text, err)
		}
		var got *eskip.Route
		if err := json.Unmarshal(again, &got); err != nil {
			t.Fatalf("%s does not unmarshal: %v", again, err)
		}
		if !eskip.Eq(got, r) || !eskip.EqLists([]*eskip.Route{got}, []*eskip.Route{eskip.Copy(r)}) {
			t.Errorf("%s gives another route than %s", again, text)
		}
		_ = eskip.String(r, got) // any result can be printed
	})
}
