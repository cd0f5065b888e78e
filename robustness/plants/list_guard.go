package plants

import "github.com/routesrv/routesrv/robustness/validate"

// ofTheGuard are mistakes with holds: Guarded and Live.
func ofTheGuard() []Plant {
	return []Plant{
		{
			Name: "guard-after-restart", Validator: validate.NameGuarded, Scenario: "loss-while-down",
			What: "the first read after a restart is not compared with the last-known-good table",
			Edits: []Edit{{
				File: "gate/gate.go",
				Old:  "\tif before == nil {\n\t\tbeside = g.baseline\n\t}\n\tverdict",
				New:  "\tif before == nil || planted.On(\"guard-after-restart\") && g.served.Load().Stale {\n\t\tbeside = g.baseline\n\t}\n\tverdict",
			}},
		},
		{
			Name: "short-hold", Validator: validate.NameGuarded, Scenario: "loss",
			What: "a hold is released after a tenth of its time",
			Edits: []Edit{{
				File: "guard/hold.go",
				Old:  "\treturn from.Add(g.cfg.Hold)\n",
				New:  "\tif planted.On(\"short-hold\") {\n\t\treturn from.Add(g.cfg.Hold / 10)\n\t}\n\treturn from.Add(g.cfg.Hold)\n",
			}},
		},
		{
			Name: "guard-asleep", Validator: validate.NameGuarded, Scenario: "loss",
			What: "what was lost does not count",
			Edits: []Edit{{
				File: "guard/inspect.go",
				Old:  "\tif served == nil || served.Len() == 0 {\n",
				New:  "\tif served == nil || served.Len() == 0 || planted.On(\"guard-asleep\") {\n",
			}},
		},
		{
			Name: "restore-in-parts", Validator: validate.NameGuarded, Scenario: "restore",
			What: "a hold ends as soon as the table lacks less than the limits",
			Edits: []Edit{{
				File: "guard/inspect.go",
				Old:  "\treturn g.unreturned(candidate)\n",
				New:  "\tif planted.On(\"restore-in-parts\") {\n\t\treturn finding{}\n\t}\n\treturn g.unreturned(candidate)\n",
			}},
		},
		{
			Name: "hold-forgotten", Validator: validate.NameGuarded, Scenario: "restore-killed",
			What: "a restart ends a hold",
			Edits: []Edit{{
				File: "gate/lastknowngood.go",
				Old:  "\tg.resume(hold)\n",
				New:  "\tif !planted.On(\"hold-forgotten\") {\n\t\tg.resume(hold)\n\t}\n",
			}},
		},
		{
			Name: "frozen-endpoints", Validator: validate.NameLive, Scenario: "loss",
			What: "a hold keeps the whole table, endpoints included",
			Edits: []Edit{{
				File: "gate/halves.go",
				Old:  "\tif g.cfg.Halves == nil || s == nil ||",
				New:  "\tif planted.On(\"frozen-endpoints\") || g.cfg.Halves == nil || s == nil ||",
			}},
		},
		{
			Name: "lost-backends-unsaid", Validator: validate.NameLive, Scenario: "drain",
			What: "services have lost all endpoints, their routes keep them, and no answer says so",
			Edits: []Edit{{
				File: "etagcache/state.go",
				Old:  "\tcase next.held && next.backends:\n",
				New:  "\tcase next.held && next.backends && planted.On(\"lost-backends-unsaid\"):\n\tcase next.held && next.backends:\n",
			}},
		},
		{
			Name: "endpoints-remembered", Validator: validate.NameLive, Scenario: "churn",
			What: "an object is not compiled again when the endpoints of its service change",
			Edits: []Edit{{
				File: "compile/lookup.go",
				Old:  "|| c.slices[s.key] != s.slices {",
				New:  "|| c.slices[s.key] != s.slices && !planted.On(\"endpoints-remembered\") {",
			}},
		},
		{
			Name: "watch-event-lost", Validator: validate.NameLive, Scenario: "watch",
			What: "every fifth event of a watch of the API changes nothing, and counts as received",
			Edits: []Edit{{
				File: "internal/source/cluster/watch/apply.go",
				Old:  "\t\tchanged := k.apply(&u)\n",
				New:  "\t\tchanged := !(planted.On(\"watch-event-lost\") && planted.Every(5)) && k.apply(&u)\n",
			}},
		},
	}
}
