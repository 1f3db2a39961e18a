"""Pieces of URDF text for tests."""

INERTIAL = """<inertial><origin xyz="0.1 0 0"/><mass value="2"/>
  <inertia ixx="0.2" ixy="0" ixz="0" iyy="0.3" iyz="0" izz="0.25"/></inertial>"""

LIMIT = '<limit lower="-1" upper="1" effort="1" velocity="1"/>'


def link(name, inertial=INERTIAL):
    return f'<link name="{name}">{inertial}</link>\n'


def joint(name, parent, child, kind="revolute", more='<axis xyz="0 0 1"/>'):
    ends = f'<parent link="{parent}"/><child link="{child}"/>'
    return f'<joint name="{name}" type="{kind}">{ends}{LIMIT}{more}</joint>\n'
