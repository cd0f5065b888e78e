package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/routesrv/routesrv/compile"
	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
	"github.com/routesrv/routesrv/test/kubetest"
)

// hostileTexts are texts that once broke something, or that a level could treat in another way than the next one.
var hostileTexts = []string{
	"http\n", "http://a\nb", "\n", "\r", "\r\n", "\t", "\v\f\a\b", "\x00", "\x01", "\x1b[31m", "\u0085", "\u2028", "\u2029", "\u00a0", "é", "\ufeff",
	`"`, `\`, `\"`, `\n`, `\\`, "`", "'", ";", `";`, `"; x: * -> "http://evil`, "\";\nx: * -> <shunt>;\ny: * -> \"", "//", "/*", "/", `\[`, "[", "]", "(", ")", "*", "**", "?", "#",
	"->", "&&", "<shunt>", "<>", ">", "a -> b", "a: * -> <shunt>", "r: Method(\"GET\") -> \"http://a\nb\"", `r: * -> "http://a\"b"`, "r: * -> <`http://a\nb`, \"http://c\">",
	`f("\n")`, "f(\"\n\")", "f(/[\n]/)", "f(`\"`)", "f(1e400)", `Host(/\[/)`, `Method("")`, `Path("")`, `Path("\n")`, "0", "-1", "1e309", "NaN", "null", "true", "{}", "[]",
	"?zone=x", "http://x?zone=z&y=", "http://x?a=%zz", "http://[::1", "http://x#", "//x", "http://", "://", "http://x/%0a", "http://x?zone=%0a%22", "zone=%0A",
	strings.Repeat("a", 5000), strings.Repeat("é", 300), strings.Repeat("/a", 300), strings.Repeat("(", 2000), strings.Repeat("[", 100),
}

// hostileTenant is one namespace with an object of every kind that routes come from, which refer to each other.
const hostileTenant = `[
{"apiVersion":"networking.k8s.io/v1","kind":"Ingress","metadata":{"namespace":"NS","name":"app-i","labels":{"application":"a"},"annotations":{
 "kubernetes.io/ingress.class":"skipper","zalando.org/skipper-filter":"setPath(\"/x\")","zalando.org/skipper-predicate":"Method(\"GET\")","zalando.org/ratelimit":"ratelimit(1, \"1s\")",
 "zalando.org/skipper-routes":"r: Path(\"/c\") -> \"http://c.example.org\"","zalando.org/backend-weights":"{\"app-1\": 1, \"app-2\": 2}",
 "zalando.org/skipper-loadbalancer":"random","zalando.org/skipper-backend-protocol":"http","zalando.org/skipper-ingress-path-mode":"path-prefix",
 "zalando.org/skipper-ingress-redirect":"true","zalando.org/skipper-ingress-redirect-code":"301","zalando.org/traffic-zone-aware":"true","zalando.org/skipper-backend":"x"}},
 "spec":{"ingressClassName":"skipper","defaultBackend":{"service":{"name":"app-1","port":{"name":"main"}}},"tls":[{"hosts":["NS.example.org"],"secretName":"cert-1"}],
 "rules":[{"host":"NS.example.org","http":{"paths":[
  {"path":"/a","pathType":"Prefix","backend":{"service":{"name":"app-1","port":{"number":80}}}},{"path":"/a","backend":{"service":{"name":"app-2","port":{"name":"main"}}}},
  {"path":"/b","pathType":"Exact","backend":{"service":{"name":"outside","port":{"number":80}}}}]}},
  {"host":"i1.ingress.cluster.local","http":{"paths":[{"path":"/","backend":{"service":{"name":"app-1","port":{"number":80}}}}]}}]}},
{"apiVersion":"zalando.org/v1","kind":"RouteGroup","metadata":{"namespace":"NS","name":"app-g","labels":{"application":"a"},"annotations":{
 "zalando.org/routegroup.class":"skipper","zalando.org/skipper-backend-protocol":"http","zalando.org/traffic-zone-aware":"true","zalando.org/skipper-ingress-redirect":"true"}},
 "spec":{"hosts":["g.NS.example.org","g1.ingress.cluster.local"],"backends":[{"name":"service","type":"service","serviceName":"app-1","servicePort":80,"algorithm":"random"},
 {"name":"network","type":"network","address":"http://n.example.org"},{"name":"lb","type":"lb","endpoints":["http://1.1.1.1:80","http://1.1.1.2:80"],"algorithm":"roundRobin"}],
 "defaultBackends":[{"backendName":"service","weight":1},{"backendName":"network","weight":2}],"tls":[{"hosts":["g.NS.example.org"],"secretName":"cert-1"}],
 "routes":[{"path":"/p","methods":["GET","PUT"],"filters":["setPath(\"/y\")"],"predicates":["Header(\"a\", \"b\")"]},{"pathSubtree":"/s","backends":[{"backendName":"lb"}]},
 {"pathRegexp":"^/r","backends":[{"backendName":"network"}]}]}},
{"apiVersion":"v1","kind":"Service","metadata":{"namespace":"NS","name":"app-1"},"spec":{"type":"ClusterIP","clusterIP":"10.3.0.1","ports":[{"name":"main","port":80,"targetPort":"web","protocol":"TCP"}]}},
{"apiVersion":"v1","kind":"Service","metadata":{"namespace":"NS","name":"app-2"},"spec":{"type":"ClusterIP","ports":[{"name":"main","port":80,"targetPort":8080,"protocol":"TCP"}]}},
{"apiVersion":"v1","kind":"Service","metadata":{"namespace":"NS","name":"outside"},"spec":{"type":"ExternalName","externalName":"out.example.org","ports":[{"name":"main","port":80,"targetPort":8080}]}},
{"apiVersion":"v1","kind":"Endpoints","metadata":{"namespace":"NS","name":"app-1"},"subsets":[{"addresses":[{"ip":"10.2.0.1"},{"ip":"10.2.0.2"}],"ports":[{"name":"web","port":8080,"protocol":"TCP"}]}]},
{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","addressType":"IPv4","metadata":{"namespace":"NS","name":"app-1-x","labels":{"kubernetes.io/service-name":"app-1"}},
 "ports":[{"name":"web","port":8080,"protocol":"TCP","appProtocol":"kubernetes.io/h2c"}],
 "endpoints":[{"addresses":["10.2.0.1"],"zone":"z-1"},{"addresses":["10.2.0.2"],"zone":"z-1"},{"addresses":["10.2.0.3"],"zone":"z-1"},{"addresses":["10.2.0.4"],"zone":"z-2"}]}
]`

// edited calls yield with a copy of a JSON value for each text in it: with the next other text in its place. It leaves alone what says
// which kind of object this is, and where it belongs.
func edited(value any, next func() string, path string, yield func(any, string)) {
	switch v := value.(type) {
	case string:
		switch path {
		case "/kind", "/apiVersion", "/metadata/namespace", "/metadata/labels/kubernetes.io~service-name":
		default:
			yield(next(), path)
		}
	case []any:
		for i := range v {
			edited(v[i], next, fmt.Sprintf("%s/%d", path, i), func(other any, where string) {
				c := slices.Clone(v)
				c[i] = other
				yield(c, where)
			})
		}
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			edited(v[k], next, path+"/"+strings.ReplaceAll(k, "/", "~"), func(other any, where string) {
				c := maps.Clone(v)
				c[k] = other
				yield(c, where)
			})
		}
	}
}

// hostileCluster returns a stream of objects: an untouched tenant "good", and one for each text field of each object, in which the
// n-th field has textOf(n).
func hostileCluster(t testing.TB, textOf func(n int) string) []byte {
	t.Helper()
	var out bytes.Buffer
	add := func(objects []any, ns string) {
		for _, o := range objects {
			data, err := json.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			out.WriteString("---\n")
			out.Write(bytes.ReplaceAll(data, []byte("NS"), []byte(ns)))
			out.WriteByte('\n')
		}
	}
	var objects []any
	if err := json.Unmarshal([]byte(hostileTenant), &objects); err != nil {
		t.Fatal(err)
	}
	add(objects, "good")
	add(objects, "shared")
	n := 0
	for i := range objects {
		edited(objects[i], func() string { return strings.ToValidUTF8(textOf(n+1), "\ufffd") }, "", func(other any, path string) { // as the API does
			n++
			if i >= 2 { // a backend: it needs users of its own
				all := slices.Clone(objects)
				all[i] = other
				add(all, fmt.Sprintf("t%03d", n))
				return
			}
			o := maps.Clone(other.(map[string]any))
			o["metadata"] = maps.Clone(o["metadata"].(map[string]any))
			if path != "/metadata/name" {
				o["metadata"].(map[string]any)["name"] = fmt.Sprintf("app-%03d", n)
			}
			add([]any{o}, "shared")
		})
	}
	if n < len(hostileTexts) {
		t.Fatalf("only %d fields", n)
	}
	return out.Bytes()
}

// hostileOptions are options of the compiler under which it looks at every field. slices says whether it takes endpoints from EndpointSlices.
func hostileOptions(slices bool) rules.Options {
	return rules.Options{
		EndpointSlices: slices, EastWest: true, HTTPSRedirect: true, ExternalNames: true, ApplicationLabel: "application",
		EastWestRangeDomains: []string{"ingress.cluster.local"}, EastWestRangePredicates: eskip.MustParsePredicates(`ClientIP("10.0.0.0/8")`),
		EditRoutes:  []*eskip.Editor{eskip.NewEditor(regexp.MustCompile(`^setPath[(]"(.*)"[)]$`), `setPath("/v1$1")`)},
		CloneRoutes: []*eskip.Clone{eskip.NewClone(regexp.MustCompile(`^Host[(](.*)[)]$`), "HostAny($1)")},
	}
}

// goodRoutes are the routes of the untouched tenant when it is alone.
func goodRoutes(t testing.TB, o rules.Options) []string {
	t.Helper()
	var objects []any
	if err := json.Unmarshal([]byte(hostileTenant), &objects); err != nil {
		t.Fatal(err)
	}
	var stream bytes.Buffer
	for _, o := range objects {
		data, _ := json.Marshal(o)
		stream.WriteString("---\n" + strings.ReplaceAll(string(data), "NS", "good") + "\n")
	}
	var own []string
	for r := range compiledHostile(t, o, stream.Bytes()).Routes.All() {
		if strings.Contains(r.Text, "good") {
			own = append(own, r.Text)
		}
	}
	if len(own) < 20 {
		t.Fatalf("the untouched tenant has %d routes", len(own))
	}
	return own
}

// compiledHostile returns what the compiler makes of a stream of objects. A defect of the compiler fails the test.
func compiledHostile(t testing.TB, o rules.Options, objects []byte) *compile.Result {
	t.Helper()
	cluster, err := kubetest.New(objects, kubetest.API{})
	if err != nil {
		t.Fatal(err)
	}
	snapshot, err := cluster.Read(context.Background(), kube.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := compile.New(o)
	if err != nil {
		t.Fatal(err)
	}
	result := c.Compile(snapshot)
	for _, p := range result.Problems {
		if p.Reason == rules.InternalError {
			t.Errorf("a defect: %s", p)
		}
	}
	return result
}

// checkServed checks that every reader of the table has it byte by byte, and that the routes of the untouched tenant are in it.
func checkServed(t testing.TB, text string, want []string) {
	t.Helper()
	d := table.NewDecoder(nil, 1<<30)
	if _, err := d.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	read, err := d.Table(1, time.Unix(1, 0))
	if err != nil {
		t.Fatalf("the table does not read: %v", err)
	}
	if string(read.Text()) != text {
		t.Errorf("readers have another text, so they can apply no delta")
	}
	if parsed, err := eskip.Parse(text); err != nil || len(parsed) != read.Len() {
		t.Errorf("a proxy reads %d of %d routes: %v", len(parsed), read.Len(), err)
	}
	lines := make(map[string]bool)
	for line := range strings.SplitSeq(text, "\n") {
		lines[line] = true
	}
	if len(lines) != read.Len() {
		t.Errorf("%d lines, %d routes", len(lines), read.Len())
	}
	for _, w := range want {
		if !lines[w] {
			t.Errorf("the route of another object is lost: %s", w)
		}
	}
}

// always is the same text for every field.
func always(text string) func(int) string { return func(int) string { return text } }
