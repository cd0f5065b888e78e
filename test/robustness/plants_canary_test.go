package robustness

import "github.com/routesrv/routesrv/test/robustness/validate"

// ofTheCanary are mistakes with what soaks: CanaryFirst, and Live.
func ofTheCanary() []Plant {
	return []Plant{
		{
			Name: "endpoints-soaked", Validator: validate.NameLive, Scenario: "canary",
			What: "while anything soaks, the fleet keeps its endpoints",
			Edits: []Edit{{
				File: "publish/canary.go",
				Old:  "\t\tfleet := p.build(s, d.wanted, list.and(entries))\n",
				New:  "\t\tif planted.On(\"endpoints-soaked\") {\n\t\t\told := *d.wanted.Snapshot\n\t\t\told.Backends = s.served.Snapshot.Backends\n\t\t\td.wanted.Snapshot = &old\n\t\t}\n\t\tfleet := p.build(s, d.wanted, list.and(entries))\n",
			}},
		},
		{
			Name: "promoted-early", Validator: validate.NameCanaryFirst, Scenario: "canary",
			What: "a change is promoted after a quarter of its soak",
			Edits: []Edit{{
				File: "publish/canary.go",
				Old:  "\t\tk.Until = k.Since.Add(p.canary.Soak)\n",
				New:  "\t\tk.Until = k.Since.Add(p.canary.Soak)\n\t\tif planted.On(\"promoted-early\") {\n\t\t\tk.Until = k.Since.Add(p.canary.Soak / 4)\n\t\t}\n",
			}},
		},
		{
			Name: "canary-served-the-fleets", Validator: validate.NameCanaryFirst, Scenario: "canary",
			What: "the canary is served the table of the fleet",
			Edits: []Edit{{
				File: "publish/build.go",
				Old:  "\tc.table, c.list = d.canary, d.list.others()\n",
				New:  "\tc.table, c.list = d.canary, d.list.others()\n\tif planted.On(\"canary-served-the-fleets\") {\n\t\tc.table = d.table\n\t}\n",
			}},
		},
		{
			Name: "halted-on-the-canary", Validator: validate.NameCanaryFirst, Scenario: "canary",
			What: "a halted version stays on the canary",
			Edits: []Edit{{
				File: "publish/canary.go",
				Old:  "return k.Soak.Halted != \"\" })\n\tif len(halted)",
				New:  "return k.Soak.Halted != \"\" && !planted.On(\"halted-on-the-canary\") })\n\tif len(halted)",
			}},
		},
	}
}
