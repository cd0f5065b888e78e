package robustness

import (
	"fmt"
	"strings"
	"time"

	"github.com/routesrv/routesrv/test/robustness/traffic"
)

// takenOver applies an object that takes requests of another namespace, changes the losing one, and then applies a version that takes nothing.
func takenOver(s *Stage) error {
	loser := App("losers", "victim", "10.9.0.1")
	taker := func(host, class string) traffic.Write {
		return traffic.Write{Key: traffic.Key{Kind: traffic.RouteGroup, Namespace: "takers", Name: "all"}, Class: class, Object: `{"apiVersion":"zalando.org/v1",
			"kind":"RouteGroup","metadata":{"name":"all","namespace":"takers"},"spec":{"hosts":["` + host + `"],"backends":[{"name":"b","type":"shunt"}],
			"routes":[{"pathSubtree":"/deep","backends":[{"backendName":"b"}]}]}}`}
	}
	steps := [][]traffic.Write{
		loser, {taker("victim.losers.example.org", traffic.Refused)}, App("newcomers", "new", "10.9.0.2"), nil, {taker("all.takers.example.org", traffic.Valid)},
	}
	front := loser[len(loser)-1]
	front.Object = strings.Replace(front.Object, `"metadata":{`, `"metadata":{"annotations":{"zalando.org/skipper-predicate":"Method(\"GET\")"},`, 1)
	steps[3] = []traffic.Write{front}
	for _, writes := range steps {
		if err := s.Apply(writes...); err != nil {
			return err
		}
		s.Wait(4 * time.Second) // longer than a validator allows for a read to show
	}
	return nil
}

// indirect applies an object that takes requests of another namespace once its Service has a port and a ready pod, and then changes only these. An
// innocent team changes its object after each step.
func indirect(s *Stage) error {
	write := func(kind, name, class, object string) traffic.Write {
		return traffic.Write{Key: traffic.Key{Kind: kind, Namespace: "takers", Name: name}, Class: class, Object: object}
	}
	taker := func(host, class string) traffic.Write {
		return write(traffic.RouteGroup, "late", class, `{"apiVersion":"zalando.org/v1","kind":"RouteGroup","metadata":{"name":"late","namespace":"takers"},
			"spec":{"hosts":["`+host+`"],"backends":[{"name":"b","type":"service","serviceName":"late","servicePort":80}],
			"routes":[{"pathSubtree":"/deep","backends":[{"backendName":"b"}]}]}}`)
	}
	app := App("takers", "late", "10.9.0.3")
	service, ready := app[0], app[1]
	portless, unready := service, ready
	portless.Object = strings.Replace(service.Object, `"port":80`, `"port":81`, 1)
	unready.Object = strings.Replace(ready.Object, `"ready":true`, `"ready":false`, 1)
	gone := func(w traffic.Write) traffic.Write { w.Object = ""; return w }
	innocent := App("newcomers", "new", "10.9.0.2")
	losers := append(App("losers", "victim", "10.9.0.1"), traffic.Write{ // it has the catch-all of the host
		Key: traffic.Key{Kind: traffic.RouteGroup, Namespace: "losers", Name: "victim"}, Class: traffic.Valid, Object: `{"apiVersion":"zalando.org/v1",
			"kind":"RouteGroup","metadata":{"name":"victim","namespace":"losers"},"spec":{"hosts":["victim.losers.example.org"],
			"backends":[{"name":"b","type":"shunt"}],"routes":[{"pathSubtree":"/other","backends":[{"backendName":"b"}]}]}}`,
	})
	if err := s.Apply(append(losers, innocent...)...); err != nil {
		return err
	}
	for i, writes := range [][]traffic.Write{
		{taker("victim.losers.example.org", traffic.Refused)}, {portless}, {service, unready}, {ready}, {gone(service)}, {service}, {gone(ready)}, {ready},
		{taker("late.takers.example.org", traffic.Valid)},
	} {
		front := innocent[len(innocent)-1]
		front.Object = strings.Replace(front.Object, `"metadata":{`, fmt.Sprintf(`"metadata":{"annotations":{"zalando.org/skipper-predicate":"Header(\"X-Step\", \"%d\")"},`, i), 1)
		if err := s.Apply(append(writes, front)...); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
		s.Wait(4 * time.Second) // longer than a validator allows for a read to show
	}
	return nil
}
