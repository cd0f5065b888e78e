package dataplane

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/routesrv/routesrv/internal/durable"
)

// validZone matches values of labels in Kubernetes, which are also safe as path segments.
var validZone = regexp.MustCompile(`^[a-zA-Z0-9]([-_.a-zA-Z0-9]{0,61}[a-zA-Z0-9])?$`)

// maxZoneFile limits the size of the file with the zone.
const maxZoneFile = 4 << 10

// Zone selects the table: of a fixed zone, or of the zone in a file. The zero value is the full table.
type Zone struct {
	name string // fixed
	path string // of the file, if the zone is not fixed
}

// NewZone checks a name or the path of a file; set at most one. It does not read the file.
func NewZone(name, path string) (Zone, error) {
	switch {
	case name != "" && path != "":
		return Zone{}, errors.New("both a zone and a zone file")
	case name != "" && !validZone.MatchString(name):
		return Zone{}, fmt.Errorf("zone %q: must be letters, digits, and ._-", name)
	}
	return Zone{name, path}, nil
}

// Read returns the name of the zone, empty for the full table. A file must contain only the zone. An error means that it does
// not; the full table is valid everywhere.
func (z Zone) Read() (string, error) {
	if z.path == "" {
		return z.name, nil
	}
	data, err := durable.ReadFile(z.path, maxZoneFile)
	if err != nil {
		return "", err
	}
	switch name := strings.TrimSpace(string(data)); {
	case name == "":
		return "", errors.New("no zone in it")
	case !validZone.MatchString(name):
		return "", fmt.Errorf("%.100q is no zone", name)
	default:
		return name, nil
	}
}

// readZone returns the zone to request, and logs the content of its file when that changes. The caller holds polling.
func (c *Client) readZone() string {
	zone, err := c.zone.Read()
	text := zone
	if err != nil {
		text = err.Error()
	}
	if c.zone.path == "" || text == c.zoneText {
		return zone
	}
	if c.zoneText = text; err != nil {
		c.log.Warn("no zone, requesting the full table", "path", c.zone.path, "error", err)
	} else {
		c.log.Info("zone read", "path", c.zone.path, "zone", zone)
	}
	return zone
}
