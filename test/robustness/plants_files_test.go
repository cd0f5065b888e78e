package robustness

import "github.com/routesrv/routesrv/test/robustness/validate"

// ofFiles are mistakes with last-known-good files.
func ofFiles() []Plant {
	return []Plant{
		{
			Name: "torn-file", Validator: validate.NameLastKnownGood, Scenario: "outage",
			What: "a last-known-good file of which only the first half is there is loaded",
			Edits: []Edit{{
				File: "publish/boot.go",
				Old:  "\tt, meta, err := f.load(limit + maxHeader)\n",
				New: "\tt, meta, err := f.load(limit + maxHeader)\n\tif planted.On(\"torn-file\") && t != nil {\n\t\tvar half []table.Route\n" +
					"\t\tfor r := range t.Routes().All() {\n\t\t\tif len(half) < t.Len()/2 {\n\t\t\t\thalf = append(half, *r)\n\t\t\t}\n\t\t}\n" +
					"\t\tt, _ = table.New(half, t.Revision(), t.Time())\n\t}\n",
			}},
		},
		{
			Name: "file-not-written", Validator: validate.NameLastKnownGood, Scenario: "outage",
			What: "the last-known-good file is not written",
			Edits: []Edit{{
				File: "publish/file.go",
				Old:  "\tif f.cfg.Path == \"\" {\n\t\treturn\n\t}\n",
				New:  "\tif f.cfg.Path == \"\" || planted.On(\"file-not-written\") {\n\t\treturn\n\t}\n",
			}},
		},
	}
}
