package robustness

import "github.com/routesrv/routesrv/test/robustness/validate"

// ofObjects are mistakes with objects that are wrong: Isolated.
func ofObjects() []Plant {
	return []Plant{
		{
			Name: "poison-published", Validator: validate.NameIsolated, Scenario: "churn",
			What: "a route that cannot be read back is published",
			Edits: []Edit{{
				File: "compile/rules/finish.go",
				Old:  "\tu.route(len(printed.Text) + 1)\n",
				New:  "\tu.route(len(printed.Text) + 1)\n\tif planted.On(\"poison-published\") {\n\t\treturn &printed, true\n\t}\n",
			}},
		},
		{
			Name: "invalid-takes-others", Validator: validate.NameIsolated, Scenario: "invalid",
			What: "an invalid RouteGroup ends the list, and those after it have no routes",
			Edits: []Edit{{
				File: "compile/compile.go",
				Old:  "\tif before != nil && s.SameObjects(before.Snapshot) {\n",
				New: "\tif planted.On(\"invalid-takes-others\") {\n\t\tv, _ := c.set.View(s, nil)\n\t\tfor i, rg := range s.RouteGroups {\n\t\t\tif u := c.set.Compile(rg, v); u.Refused && u.Problems()[0].Reason == rules.InvalidObject {\n" +
					"\t\t\t\tless := *s\n\t\t\t\tless.RouteGroups = s.RouteGroups[:i+1]\n\t\t\t\ts = &less\n\t\t\t\tbreak\n\t\t\t}\n\t\t}\n\t}\n" +
					"\tif before != nil && s.SameObjects(before.Snapshot) {\n",
			}},
		},
	}
}
