"""What the fuzz of all arguments does not ask, with the reason of each."""

from __future__ import annotations

import re

from bad_values import RESULTS

#: Programs that are not run.
NOT_RUN: dict[str, str] = {
    "connections.multibody.warm_up": "compiles all recursions, for minutes",
    "connections.sweeps.local_cluster": "starts processes, which import a program's main module",
    **dict.fromkeys(
        [
            f"connections.sweeps.{name}"
            for name in ("Done", "Store", "Summary", "run_sweep", "store.Store.to_xarray")
        ],
        "pickles a function that is defined in the program, which has no file; others call these",
    ),
}

_RESULTS = (
    "affine.(ConjugateTimes|Decomposition|Estimated|FisherMetric|Geodesic(Flow|Stability)|JacobiField)",
    "affine.(StatisticalModel|TransportFlow)",
    "certified.(Constants|CoriolisBound|Interval|SmallestCoriolis|TrilinearNorm)|control.CertifiedGains?",
    "control.results.*|control.(MuJoCoRobot|RobotTask|tracking_example.TrackingResult)",
    "control.controllability.(ControllabilityReport|DecouplingFields?|KinematicReport|LieClosure|NumericalRank)",
    "coriolis.AuditReport|estimation.(Consistency|History|Innovation)|explorer.Explorer|plots.StepSweep",
    "interop.(GeomstatsMetric|LibraryAudit)|multibody.(SolvedLoops|InverseKinematics|Logarithm|Model|TracedModel)",
    "multibody.curvatures.CurvatureExtremes",
    "referee.(Row|LayoutRow)|verify.Row|sweeps.Chunk",
    "referee.(CorpusRobot|LayoutFrame|LayoutSearch|RefereeReport)|sweeps.(Done|PropositionSummary|Summary)",
    "verify.(Bodies|Group|GroupResult|MotionRates|NonholonomicSubject|Subject)",
)
_OF_ROOMS = (
    ".*.(explain|explain_end|explain_regular|require_near|require_times|host_motion|tree_flatten|tree_unflatten|evaluate)",
    "geometry.curves.SampledCurve.(arguments|between|step_for_derivatives)",
    "multibody.joints.*.(motion_with|transform_with|pose|frame_matrix|displaced|retracted|velocity|difference)",
    "multibody.joints.*.random|multibody.model.Model.of|control.splines.effort_curve.EffortCurve.of",
    "control.laws.adaptive.AdaptiveController.learned|control.laws.references.*.initial_state",
    "control.whole_body.task.TaskState.*|sweeps.store.Store.*|sweeps.sweep.(Chunk.rng_of|Sweep.bounds|Sweep.compute)",
    "estimation.sensor.Sensor.(residual_at|require_noise|takes_inputs|seen_with|with_angles)",
    "referee.(layouts.LayoutFrame|filters.FilterState|corpus_robots.CorpusRobot).*",
    "verify.(subjects.Subject|nonholonomic_subjects.NonholonomicSubject).*",
)
#: Patterns of public callables that no program calls.
NOT_CALLED: dict[str, str] = {
    **dict.fromkeys(_RESULTS, "a result: functions of the library make it"),
    **dict.fromkeys(_OF_ROOMS, "for the library's own rooms: what it is given was judged before"),
    "estimation.Status": "an enumeration: its error is Python's",
    "multibody.codegen.load_cuda": "needs a GPU",
    "sweeps.local_cluster": "starts processes",
}


def reason_for_no_call(name: str) -> str | None:
    """Why a public callable is not called, or None."""
    short = name.removeprefix("connections.")
    return next((why for pattern, why in NOT_CALLED.items() if re.fullmatch(pattern, short)), None)


#: What is accepted, or refused in other words: (callable, argument, kind), (callable, argument),
#: or (argument, kind) of all callables.
ACCEPTED: dict[tuple[str, ...], str] = {
    ("parameters", "complex"): "of a user's function, which may return real numbers",
    ("parameters", "complex numbers"): "of a user's function, which may return real numbers",
    ("times", "one too few"): "any number of times is right",
    ("mean", "injectivity_radius", "infinite"): "no point has a cut point",
    ("periods", "nothing but None"): "no coordinate has a period",
    ("plots.figure_phase", "units"): "of quantities that are not drawn, too, as one table serves all figures",
    ("max_step", "infinite"): "no limit, as SciPy's default says it",
    ("ParametricFunction", "parameters"): "what the function takes is the user's",
    ("ParametricFunction", "function"): "called by the user, it returns what the user's function returns",
    ("affine.contorsion.ContorsionFamily.connection", "beta", "a function"): "right: it returns this beta",
    ("geometry.frames.FrameField.lie_derivative", "f", "returns one too many"): "of any shape",
    (
        "geometry.affine_invariant.AffineInvariantMetric.geodesic",
        "t",
    ): "batch axes, of which one may be empty",
    (
        "affine.connection.ConnectionOfMetric.input_coefficients",
        "forms",
        "returns one too many",
    ): "any number",
    ("affine.contorsion.ContorsionFamily.connection", "beta", "a number"): "right where n = 3",
    ("affine.contorsion.ContorsionFamily.sweep", "betas", "nothing"): "a sweep of no members",
    ("affine.contorsion.ContorsionFamily.sweep", "betas", "an empty list"): "a sweep of no members",
    ("affine.contorsion.ContorsionFamily.sweep", "quantity", "returns complex"): "as eigenvalues are",
    **{
        (
            "affine.contorsion.ContorsionFamily.sweep",
            "quantity",
            f"returns {kind}",
        ): "of any shape, in containers"
        for kind in ("one too many", "a dictionary", "rows of two lengths")
    },
    (
        "affine.constrained.ConstrainedConnection.input_coefficients_of_functions",
        "functions",
        "returns one too many",
    ): "any number of functions",
    ("GroupAction", "identity"): "the product in the example is of vectors of any length",
    ("PullbackMetric", "embedding", "returns one too many"): "a space of any dimension surrounds",
    ("checks.Check", "residual"): "it may be NaN, or infinite, which fails",
    ("checks.Check", "scale"): "it may be NaN, or infinite, which fails",
    (
        "coriolis.task_space_coriolis_matrix",
        "task",
        "returns one too many",
    ): "its point is named: J lost rank",
    ("estimation.Estimate", "q"): "the filter knows how long points are",
    ("estimation.Filter", "noise", "a function"): "right",
    ("estimation.Filter", "reset", "None"): "right",
    ("estimation.Sensor", "N", "a function"): "right",
    ("estimation.filter.Filter.update", "y", "one NaN"): "a measurement that is missing",
    ("estimation.filter.Filter.run", "y", "one NaN"): "a measurement that is missing",
    ("systems.translations", "axes", "an empty list"): "a group of one element",
    **{
        (f"symbolic.{name}", *kinds): "an expression, too"
        for name, *kinds in (
            ("PlanarLink", "mass", "a number"),
            ("PlanarLink", "inertia", "a fraction"),
            *(("PlanarLink", each, "an integer beyond float64") for each in ("offset", "center", "slide")),
            ("as_expressions", "value", "an integer beyond float64"),
            ("entries_latex", "array", "numbers"),
            ("invariance", "image", "a number at 0"),
            ("matrix_latex", "array", "numbers"),
            ("nonzero", "array", "a number"),
            ("nonzero", "array", "numbers"),
            ("simplified", "array", "numbers"),
            ("simplified", "simplify", "returns NaN"),
            ("simplified", "simplify", "returns complex"),
            ("simplified", "simplify", "returns one too many"),  # which nothing makes of an expression
            ("tidy", "expression", "a number"),
            ("vanishes", "expression", "a number"),
        )
    },
    **{
        (f"symbolic.connection.SymbolicConnection.{method}", name, kind): "an expression, too"
        for method in ("bracket", "covariant_derivative", "symmetric_product")
        for name in ("X", "Y")
        for kind in ("a number at 0", "a fraction at 0")
    },
    ("symbolic.system.SymbolicSystem.function", "expressions", "a number"): "an expression, too",
    ("symbolic.system.SymbolicSystem.function", "expressions", "a number at 0"): "an expression, too",
    (
        "symbolic.system.SymbolicSystem.input_coefficients_of_functions",
        "functions",
        "a number at 0",
    ): "an expression, too",
    ("symbolic.system.SymbolicSystem.with_basis", "basis", "None"): "right",
    (
        "affine.independent_forms.SelectedForms.__call__",
        "q",
    ): "the forms are the user's, and so is what they take",
    ("remedy", "another text"): "any words",
    ("names", "another text at 0"): "any text is a name",
    ("dims", "another text at 0"): "any text is a name",
    ("affine.SpannedDistribution", "basis", "returns NaN"): "the example reads no number of it",
    **{
        ("systems.gaits.Gait.shape", "t", kind): "any number of times"
        for kind in ("one too many", "one too few", "a number", "nothing", "an empty list")
    },
    ("systems.displacement", "start", "one too many"): "any number of coordinates after the first three",
    ("systems.displacement", "end", "one too many"): "any number of coordinates after the first three",
    ("systems.translations", "axes", "nothing"): "a group of one element",
    ("symbol", "another text"): "any text is a symbol",
    ("multibody.model.Model.with_frames", "frames", "another key"): "any text is a name",
    **{
        ("multibody.joints.Limits", name, kind): why
        for name in ("lower", "upper", "velocity", "effort", "angle")
        for kind, why in {
            "NaN": "refused with the name of the joint that gets it",
            "infinite": "no limit",
            "two numbers": "of a joint of two coordinates",
            "no number": "of a joint of none",
        }.items()
    },
    **{
        (f"multibody.joints.{thing}", argument, kind): "compared with the joints of the robot that gets it"
        for thing, argument, joint in (
            ("Motor", "joints", "bend"),
            ("Spring", "joints", "bend"),
            ("Passive", "damping", "lift"),
        )
        for kind in (
            f"two numbers at '{joint}'",
            f"no number at '{joint}'",
            "another key",
            "a key that is no text",
        )
    },
    ("multibody.joints.Motor", "force", "one infinite"): "no limit",
    ("multibody.joints.Spring", "rest", "two numbers"): "slack between them",
    ("multibody.finite_differences", "function", "returns NaN"): "differences of NaN are NaN",
    ("multibody.zero_order_hold", "B", "one too many"): "any number of inputs",
    ("multibody.zero_order_hold", "B", "one too few"): "any number of inputs",
    **dict.fromkeys(
        [
            ("control.AccelerationReference", "acceleration", "returns NaN"),
            ("control.FieldReference", "field", "returns NaN"),
            ("control.submanifold_reference", "constraint", "returns NaN"),
            ("control.task_reference", "task", "returns NaN"),
            ("control.task_reference", "trajectory", "returns NaN"),
        ],
        "a reference is evaluated in a loop, whose motion fails",
    ),
    **dict.fromkeys(
        [
            ("control.MuJoCoPlant", "position_noise", "infinite"),
            ("control.MuJoCoPlant", "velocity_noise", "infinite"),
            ("control.exciting_motion", "acceleration", "infinite"),
        ],
        "no limit",
    ),
    **dict.fromkeys(
        [
            ("control.splines.effort_curve.EffortCurve.at", "times", "one too many"),
            ("control.identification.exciting.ExcitingMotion.at", "times", "one too many"),
            ("control.identification.exciting.ExcitingMotion.at", "times", "a number"),
            ("control.identification.exciting.ExcitingMotion.at", "times", "nothing"),
            ("control.identification.exciting.ExcitingMotion.at", "times", "an empty list"),
            ("control.tracking_example.beta_values", "betas", "one too many"),
            ("control.tracking_example.beta_values", "betas", "one too few"),
            ("control.tracking_example.explore", "betas", "one too many"),
            ("control.tracking_example.explore", "betas", "one too few"),
            ("control.tracking_example.energy_spectrum", "signals", "one too many"),
            ("control.tracking_example.energy_spectrum", "signals", "one too few"),
            ("control.tracking_example.high_frequency_fraction", "signals", "one too many"),
            ("control.tracking_example.high_frequency_fraction", "signals", "one too few"),
            ("control.tracking_example.zero_crossings", "signal", "one too many"),
            ("control.tracking_example.zero_crossings", "signal", "one too few"),
            ("control.tracking_example.zero_crossings", "signal", "nothing"),
            ("control.tracking_example.zero_crossings", "signal", "an empty list"),
            ("control.SeriesElastic", "stiffness", "two numbers"),
            ("control.SeriesElastic", "stiffness", "no number"),
            ("control.SeriesElastic", "damping", "two numbers"),
            ("control.SeriesElastic", "damping", "no number"),
            ("control.SeriesElastic", "motor_inertia", "two numbers"),
            ("control.SeriesElastic", "motor_inertia", "no number"),
            *(
                ("control.Target", name, f"one {kind}")
                for name in ("place", "velocity")
                for kind in ("NaN", "infinite")
            ),
            ("control.Target", "place", "one too many"),
            ("control.Target", "place", "one too few"),
            ("control.Target", "place", "a number"),
            ("control.Target", "place", "nothing"),
            ("control.Target", "place", "an empty list"),
            ("control.Target", "velocity", "one too many"),
            ("control.Target", "velocity", "one too few"),
            ("control.Target", "velocity", "a number"),
            ("control.Target", "velocity", "nothing"),
            ("control.Target", "velocity", "an empty list"),
            ("control.time_varying_lqr", "B", "one too many"),
            ("control.lqr", "B", "one too many"),
            ("control.lqr", "Q", "two numbers"),
            ("control.reachable_directions", "B", "one too many"),
            ("control.reachable_directions", "B", "one too few"),
            ("control.require_stabilizable", "B", "one too many"),
            ("control.require_stabilizable", "B", "one too few"),
            ("control.submanifold_reference", "constraint", "returns one too many"),
            ("control.task_reference", "task", "returns one too many"),
            ("control.time_varying_lqr", "Q", "two numbers"),
            ("control.time_varying_lqr", "Q_final", "two numbers"),
        ],
        "any number of them is right, or that which is known to what takes it",
    ),
    **{
        (f"control.{task}", gain, kind): "of a task of as many components"
        for task in (
            "AngularMomentumTask",
            "CenterOfMassTask",
            "OrientationTask",
            "PointTask",
            "PoseTask",
            "PostureTask",
        )
        for gain in ("damping", "stiffness")
        for kind in ("two numbers", "no number")
    },
    (
        "control.LinearlyParametrizedSystem",
        "nominal",
        "one too many",
    ): "known to the user's function, which fails",
    (
        "control.LinearlyParametrizedSystem",
        "nominal",
        "one too few",
    ): "known to the user's function, which fails",
    ("control.laws.closed_loop.ClosedLoop.member", "beta", "a number"): "right where n = 3",
    ("control.laws.closed_loop.ClosedLoop.member", "beta", "a function"): "right: it returns this beta",
    ("frame", "another text"): "the robot knows its frames",
    ("control.Push", "body", "another text"): "the robot knows its bodies",
    ("control.Target", "place", "None"): "of what has no place",
    (
        "control.controllability.input_fields",
        "forms",
        "returns NaN",
    ): "a function of q, judged where it is used",
    **{
        ("referee.detect_layout", name, f"returns {kind}"): "the row of a layout says what is wrong"
        for name in ("mass_matrix", "bias")
        for kind in RESULTS
    },
    ("referee.layouts.Layout.q_from", "q", "one too many"): "any number of joints",
    ("referee.layouts.Layout.q_to", "q", "one too many"): "any number of joints",
    ("referee.planar", "point", "numbers"): "right: where the point is",
    ("referee.detect_layout", "q", "one too many"): "of another base",
    ("referee.detect_layout", "v", "one too few"): "of another base",
    **{
        ("referee.BlackBoxFilter", "u", kind): "the user's functions know it"
        for kind in ("one too many", "one too few", "nothing", "an empty list")
    },
    ("verify.subject", "room", "infinite"): "no limit",
    ("sweeps.Output", "shape", "an integer beyond float64"): "a size, though no memory has it",
    ("title", "another text"): "any words",
    ("owner", "another text"): "any text is a name",
    ("control.gain_matrix", "gain", "a number"): "of all directions",
    ("certified.trilinear_norm", "T", "one too many"): "a form of any size",
    ("certified.trilinear_norm", "T", "one too few"): "a form of any size",
    ("spaces.hyperbolic_map", "q", "one too many"): "a space of another dimension",
    (
        "control.controllability.is_decoupling",
        "X",
        "returns NaN",
    ): "the check fails, of which the residual is NaN",
    ("multibody.independent_forms", "forms", "returns one too many"): "any number of them is right",
    ("multibody.independent_forms", "q", "one too many"): "the user's function knows how many",
    ("multibody.independent_forms", "q", "one too few"): "the user's function knows how many",
    ("multibody.codegen.generate_c", "folder", "another text"): "any text is a path",
    ("multibody.inverse_kinematics", "targets", "one too few at 'tool'"): "four points in place of a pose",
    (
        "multibody.codegen.load_c",
        "flags",
        "another text at 0",
    ): "the compiler's own error, which the library repeats",
    ("multibody.SelectedForms", "rows", "nothing"): "no form is selected",
    ("multibody.SelectedForms", "rows", "an empty list"): "no form is selected",
    ("multibody.SelectedForms", "rows", "an integer beyond float64"): "refused where the forms are known",
    ("multibody.SelectedForms", "forms", "returns one too many"): "any number of them is right",
    ("multibody.SelectedForms", "forms", "returns NaN"): "judged where they are used",
    **{
        (f"multibody.{contact}", "body", "another text"): "the robot knows its bodies"
        for contact in ("Ball", "Blade", "Wheel")
    },
    ("affine.motions.motion.Motion.plot", "units", "another text at 'q'"): "any words",
    ("affine.motions.motion.Motion.plot_phase", "units", "another text at 'q'"): "any words",
    ("directory", "another text"): "any text is a path",
    ("plots.draw_shape", "shape", "another key"): "any text is a label",
    ("plots.figure_convergence", "robots", "another key"): "any text is a name",
    ("plots.linearization.StepSweep.of", "steps", "one too many"): "any number of them is right",
    ("plots.linearization.StepSweep.of", "steps", "one too few"): "any number of them is right",
    ("plots.write_exploration", "betas", "one too many"): "any number of them is right",
    ("sweeps.run_sweep", "path", "another text"): "any text is a path",
    ("sweeps.Store", "path", "another text"): "any text is a path",
    ("sweeps.contorsion_sweep", "gammas", "one too many"): "any number of them is right",
    ("sweeps.contorsion_sweep", "gammas", "one too few"): "any number of them is right",
    ("subject", "another text"): "any text is a name",
    ("name", "another text"): "any text is a name",
    ("evaluation.parameters.ParametricFunction.__call__", "arguments"): "they are of the user's function",
    ("geometry.curves.SampledCurve.__call__", "t", "NaN"): "NaN outside of the samples, as it says",
    ("geometry.curves.SampledCurve.__call__", "t", "infinite"): "NaN outside of the samples, as it says",
    ("t", "two numbers"): "batch axes, or any number of times",
    ("t", "no number"): "an empty batch",
    (
        "geometry.products.ProductFrame.split_point",
        "q",
        "one NaN",
    ): "it only takes an array apart",
    ("geometry.products.ProductFrame.split_point", "q", "one infinite"): "the same",
    ("geometry.products.ProductFrame.split_vector", "v", "one NaN"): "the same",
    ("geometry.products.ProductFrame.split_vector", "v", "one infinite"): "the same",
    ("geometry.curves.SampledCurve.through", "owner", "None"): "of a curve of vectors",
    ("affine.symmetry.GroupAction.check_invariant_function", "function", "returns one too many"): "any shape",
    **{
        (
            f"affine.symmetry.GroupAction.{method}",
            "q",
            kind,
        ): "the user's action knows the length, and fails"
        for method in ("act", "generators", "check_action", "require_action", "check_invariant_function")
        for kind in ("one too many", "one too few", "nothing", "an empty list")
    },
}

#: (callable, argument): a pattern of what names an argument in its errors.
NAMES: dict[tuple[str, str], str] = {
    ("geometry.curves.SampledCurve.through", "samples"): "samples|curve times|curve points",
    ("ConstrainedConnection", "distribution"): "distribution|basis",
    ("GridMetric", "axes"): "axes|values",  # whose shape is compared with that of the axes
    ("geometry.ChangedFrame", "change_matrix"): "matrix",
    ("geometry.ChangedMetric", "change_matrix"): "matrix",
    ("affine.ChangedConnection", "change_matrix"): "matrix",
    ("coriolis.induced_coriolis_matrix", "A"): "A|A_dot",  # whose shapes are compared
    ("coriolis.task_space_inclusion", "J"): "J|H",
    ("estimation.filter.Filter.run", "times"): "times|u|y",
    ("symbolic.as_expressions", "value"): "inertia",  # as it is called in the example
    ("symbolic.entries_latex", "array"): "array|indices",
    ("systems.Gait", "amplitude"): "amplitude|gait",  # whose parts have one length
    ("multibody.joints.Spring", "joints"): "joints?|coefficient",
    ("multibody.Universal", "axis_1"): "axis_1|axes",
    ("multibody.Universal", "axis_2"): "axis_2|axes",
    ("multibody.description.mechanism.Mechanism.add_body", "center_of_mass"): "centre of mass",
    ("multibody.description.mechanism.Mechanism.add_loop", "body_a"): "the body",
    ("multibody.description.mechanism.Mechanism.add_loop", "body_b"): "the body|both ends",
    ("multibody.description.mechanism.Mechanism.add_loop", "placement_a"): "placement",
    ("multibody.description.mechanism.Mechanism.add_loop", "placement_b"): "placement",
    ("multibody.description.mechanism.Mechanism.add_coupling", "joints"): "joints?|coefficient",
    ("multibody.from_mjcf", "path"): "file|text",  # which the message begins with
    ("multibody.from_urdf", "path"): "file|text",
    ("multibody.joints.Motor", "joints"): "joints?|ratio",
    ("multibody.model.Model.subtree", "link"): "link|frame",
    ("multibody.model.Model.with_frames", "frames"): "frames?",
    ("control.identify", "times"): "times|q",
    ("control.whole_body.task.RobotTask.at", "target"): "target|place",
    ("control.whole_body.controller.WholeBodyController.command", "targets"): "targets?|place",
    ("control.whole_body.controller.WholeBodyController.torque", "targets"): "targets?|place",
    ("referee.audit_functions", "q"): "q|v|nq",
    ("referee.layouts.Layout.q_to", "q"): "q|nq",
    ("referee.layouts.Layout.v_from", "q"): "q|v",
    ("referee.layouts.Layout.v_to", "q"): "q|v",
    ("referee.candidates", "given"): "robot|name",
    ("verify.system_subject", "name"): "name|system",
    ("verify.as_subject", "thing"): "expected a Subject",
    ("verify.subject_from_file", "path"): "path|file",
    ("verify.subject_from_file", "attribute"): "attribute|has no",
    ("sweeps.Store", "path"): "path|store",
    ("control.contacts.Contacts.stacked", "state"): "q|v",
    ("control.prepare", "state"): "state|q",  # the law's own arguments
    ("control.gain_matrix", "gain"): "K_D",  # which is its name there
    ("control.gain_matrix", "dim"): "dim|K_D",
    ("control.SurfaceContact", "center"): "center|placement",
    ("control.with_payload", "center_of_mass"): "centre of mass",
    ("plots.VehicleMotion", "times"): "times|q",
    ("explorer.serve", "host"): "host|serve on",
    ("interop.joint_example", "kind"): "kind|joint type",
    ("SampledCurve", "times"): "times|curve samples",
    ("statistical_model", "quadrature"): "quadrature|nodes|weights",
}


def named_by(callable_: str, argument: str) -> str:
    """The pattern of what names an argument in errors."""
    return NAMES.get((callable_.removeprefix("connections."), argument), re.escape(argument))
