package robustness

import "github.com/routesrv/routesrv/test/robustness/validate"

// ofDeltas are mistakes in deltas: DeltaEqual.
func ofDeltas() []Plant {
	return []Plant{
		{
			Name: "delta-off-by-one", Validator: validate.NameDeltaEqual, Scenario: "churn",
			What: "the last changed route is not in the delta",
			Edits: []Edit{{
				File: "etagcache/history.go",
				Old:  "\tslices.Sort(ids)\n",
				New:  "\tslices.Sort(ids)\n\tif planted.On(\"delta-off-by-one\") && len(ids) > 1 {\n\t\tids = ids[:len(ids)-1]\n\t}\n",
			}},
		},
		{
			Name: "delta-of-one-version", Validator: validate.NameDeltaEqual, Scenario: "churn",
			What: "a delta across several versions has the changes of the last one only",
			Edits: []Edit{{
				File: "etagcache/history.go",
				Old:  "\t\tif at > known.order {\n",
				New:  "\t\tif at > known.order+1 || at > known.order && !planted.On(\"delta-of-one-version\") {\n",
			}},
		},
	}
}
