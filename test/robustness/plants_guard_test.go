package robustness

import "github.com/routesrv/routesrv/test/robustness/validate"

// ofTheGuard are mistakes with holds: Guarded and Live.
func ofTheGuard() []Plant {
	return []Plant{
		{
			Name: "guard-after-restart", Validator: validate.NameGuarded, Scenario: "loss-while-down",
			What: "the first read after a restart is not compared with the last-known-good table",
			Edits: []Edit{{
				File: "publish/serve.go",
				Old:  "\tif served := p.served.Load(); served != nil {\n",
				New:  "\tif served := p.served.Load(); served != nil && !(planted.On(\"guard-after-restart\") && served.Stale) {\n",
			}},
		},
		{
			Name: "short-hold", Validator: validate.NameGuarded, Scenario: "loss",
			What: "kept objects are released after a tenth of their time",
			Edits: []Edit{{
				File: "publish/hold.go",
				Old:  "\treturn now.UTC().Add(h.hold)\n",
				New:  "\tif planted.On(\"short-hold\") {\n\t\treturn now.UTC().Add(h.hold / 10)\n\t}\n\treturn now.UTC().Add(h.hold)\n",
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
			What: "kept objects are released as soon as half of what was lost is back",
			Edits: []Edit{{
				File: "publish/decide.go",
				Old:  "\t\tcase k.over(s.now) ||",
				New:  "\t\tcase planted.On(\"restore-in-parts\") && loss.Share < 0.4 || k.over(s.now) ||",
			}},
		},
		{
			Name: "hold-in-parts", Validator: validate.NameGuarded, Scenario: "restore-after-loss",
			What: "a hold of a whole table ends as soon as the table is not suspicious, although something is not back",
			Edits: []Edit{{
				File: "publish/hold.go",
				Old:  "loss.Missing(reasons) == 0 {\n",
				New:  "(loss.Missing(reasons) == 0 || planted.On(\"hold-in-parts\")) {\n",
			}},
		},
		{
			Name: "hold-forgotten", Validator: validate.NameGuarded, Scenario: "restore-killed",
			What: "a restart releases what was kept",
			Edits: []Edit{{
				File: "publish/boot.go",
				Old:  "\tp.takeOver(kept) // also without a table\n",
				New:  "\tif !planted.On(\"hold-forgotten\") {\n\t\tp.takeOver(kept)\n\t}\n",
			}},
		},
		{
			Name: "kept-too-few", Validator: validate.NameGuarded, Scenario: "others",
			What: "half of the objects that would be lost are not kept",
			Edits: []Edit{
				{
					File: "publish/accident.go",
					Old:  "\treturn slices.CompactFunc(found.sorted()",
					New: "\tif planted.On(\"kept-too-few\") {\n\t\tfound = found.sorted()[:len(found)/2]\n\t}\n" +
						"\treturn slices.CompactFunc(found.sorted()",
				},
				{
					File: "publish/decide.go",
					Old:  "\t\tif loss.Reason == \"\" && (",
					New:  "\t\tif (loss.Reason == \"\" || planted.On(\"kept-too-few\")) && (",
				},
			},
		},
		{
			Name: "others-delayed", Validator: validate.NameLive, Scenario: "others",
			What: "while objects are kept, all others stay as they are served",
			Edits: []Edit{{
				File: "publish/build.go",
				Old:  "\tsnapshot, list := list.apply(c.Snapshot)\n",
				New: "\tif served := s.served.Snapshot; planted.On(\"others-delayed\") && served != nil {\n\t\told := *c.Snapshot\n" +
					"\t\told.Ingresses, old.RouteGroups = served.Ingresses, served.RouteGroups\n\t\tc.Snapshot = &old\n\t}\n" +
					"\tsnapshot, list := list.apply(c.Snapshot)\n",
			}},
		},
		{
			Name: "kept-too-many", Validator: validate.NameLive, Scenario: "others",
			What: "every object that changed together with those that would be lost is kept",
			Edits: []Edit{
				{
					File: "publish/accident.go",
					Old:  "\t\treturn grown || loses &&",
					New:  "\t\treturn grown || was != nil && planted.On(\"kept-too-many\") || loses &&",
				},
				{
					File: "publish/decide.go",
					Old:  "\treturn routes != nil && !slices.ContainsFunc(routes",
					New:  "\treturn routes != nil && !planted.On(\"kept-too-many\") && !slices.ContainsFunc(routes",
				},
			},
		},
		{
			Name: "address-reused", Validator: validate.NameLive, Scenario: "reused",
			What: "a kept service keeps addresses that belong to another service by now",
			Edits: []Edit{{
				File: "compile/kept.go",
				Old:  "\tif len(reused) == 0 {\n",
				New:  "\tif len(reused) == 0 || planted.On(\"address-reused\") {\n",
			}},
		},
		{
			Name: "frozen-endpoints", Validator: validate.NameLive, Scenario: "loss",
			What: "a hold keeps the whole table, endpoints included",
			Edits: []Edit{{
				File: "publish/decide.go",
				Old:  "\tif p.builder != nil && s.newest.Snapshot != nil {\n",
				New:  "\tif !planted.On(\"frozen-endpoints\") && p.builder != nil && s.newest.Snapshot != nil {\n",
			}},
		},
		{
			Name: "lost-backends-unsaid", Validator: validate.NameLive, Scenario: "drain",
			What: "services have lost all endpoints, their routes keep them, and no answer says so",
			Edits: []Edit{{
				File: "etagcache/state.go",
				Old:  "\tcase st.read.Held && st.read.Backends:\n",
				New:  "\tcase st.read.Held && st.read.Backends && planted.On(\"lost-backends-unsaid\"):\n\tcase st.read.Held && st.read.Backends:\n",
			}},
		},
		{
			Name: "endpoints-remembered", Validator: validate.NameLive, Scenario: "churn",
			What: "an object is not compiled again when the endpoints of its service change",
			Edits: []Edit{{
				File: "compile/rules/index.go",
				Old:  "slices.Equal(b.slices, o.slices) &&",
				New:  "(planted.On(\"endpoints-remembered\") || slices.Equal(b.slices, o.slices)) &&",
			}},
		},
		{
			Name: "watch-event-lost", Validator: validate.NameLive, Scenario: "watch",
			What: "every fifth event of a watch of the API changes nothing, and counts as received",
			Edits: []Edit{{
				File: "source/cluster/follow.go",
				Old:  "e.Revision > k.list.seen && k.apply(e, item)",
				New:  "e.Revision > k.list.seen && !(planted.On(\"watch-event-lost\") && planted.Every(5)) && k.apply(e, item)",
			}},
		},
	}
}
